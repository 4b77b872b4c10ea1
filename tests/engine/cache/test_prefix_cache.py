"""Who holds which page (reference, session routes; scenarios 154 to 160)."""

from __future__ import annotations

from pantheon.engine.cache import (
    MOST_CONVERSATIONS,
    Conversation,
    Lease,
    PagePool,
    PrefixCache,
    Session,
)

_PAGE = 4


class _Cache:
    """A cache with sessions whose turns run at once."""

    def __init__(self, pages: int = 64) -> None:
        self.cache = PrefixCache(PagePool(pages, _PAGE))

    def lease(
        self, prompt: tuple[int, ...], session: Session | None, answer: int = 4
    ) -> Lease | None:
        lease = self.cache.lease(prompt, len(prompt) + answer - 1, session)
        self.cache.check()
        return lease

    def turn(self, prompt: tuple[int, ...], session: Session, answer: tuple[int, ...]) -> Lease:
        """A whole turn; what is kept of it is the session's last conversation."""
        lease = self.lease(prompt, session, len(answer))
        assert lease is not None
        tokens = prompt + answer
        self.cache.copied(lease)
        self.cache.extend(lease, len(tokens) - 1)
        self.cache.check()
        self.cache.settle(
            lease,
            session,
            tokens,
            held=len(tokens) - 1,
            prompt_tokens=len(prompt),
            answer_ends=(len(tokens),),
        )
        self.cache.check()
        return lease

    @property
    def free(self) -> int:
        return self.cache.pool.free


def _session(name: str = "s") -> Session:
    return Session(name, 0.0)


def _prompt(length: int, first: int = 0) -> tuple[int, ...]:
    return tuple(range(first, first + length))


def _kept(session: Session) -> list[tuple[int, ...]]:
    return [conversation.tokens for conversation in session.conversations]


def test_a_next_turn_shares_whole_pages_and_copies_the_partial_one() -> None:
    cache, session = _Cache(), _session()
    cache.turn(_prompt(10), session, (50, 51, 52, 53))
    (kept,) = session.conversations
    lease = cache.lease((*_prompt(10), 50, 51, 52, 53, 60, 61), session)
    assert lease is not None
    assert lease.cached == 13, "the answer's last token was never fed"
    assert lease.pages[:3] == kept.pages[:3]
    assert lease.copied_page == kept.pages[3] and lease.copied_page not in lease.pages


def test_a_prefix_that_ends_with_a_page_needs_no_copy() -> None:
    cache, session = _Cache(), _session()
    cache.turn(_prompt(10), session, (50, 51, 52))
    lease = cache.lease((*_prompt(10), 50, 51, 99), session)
    assert lease is not None and (lease.cached, lease.copied_page) == (12, None)


def test_at_least_one_token_is_computed_again() -> None:
    """Scenario 155: the identical prompt; `cached_tokens` is below its length."""
    cache, session = _Cache(), _session()
    cache.turn(_prompt(10), session, (50, 51))
    assert cache.turn(_prompt(10), session, (50, 51)).cached == 9


def test_anonymous_requests_and_other_sessions_reuse_nothing() -> None:
    """Scenario 156: nothing of a foreign conversation, not even time."""
    cache, session = _Cache(), _session()
    cache.turn(_prompt(10), session, (50, 51))
    for stranger in (None, _session("other")):
        lease = cache.lease(_prompt(10), stranger)
        assert lease is not None and lease.cached == 0
        assert not {*lease.pages} & {*session.conversations[0].pages}


def test_what_nobody_continues_is_kept_for_each_conversation_of_an_id() -> None:
    """Reference: one id may carry several conversations; each keeps its own cache."""
    cache, session = _Cache(), _session()
    title, talk = _prompt(20, first=100), _prompt(30)
    cache.turn(title, session, (1, 2))
    cache.turn(talk, session, (3, 4))
    assert cache.turn((*title, 1, 2, 5, 6, 7), session, (8, 9)).cached == 21
    assert cache.turn((*talk, 3, 4, 5, 6, 7), session, (8, 9)).cached == 31
    assert len(session.conversations) == 2


def test_a_turn_takes_the_place_of_the_one_it_continues() -> None:
    cache, session = _Cache(), _session()
    cache.turn(_prompt(30), session, (50, 51))
    before = cache.free
    cache.turn((*_prompt(30), 50, 51, 52), session, (60,))
    assert _kept(session) == [(*_prompt(30), 50, 51, 52, 60)]
    assert cache.free == before - 1, "two more tokens than 32"


def test_an_edit_far_back_keeps_both() -> None:
    """Scenario 154: the earlier branch may be gone back to."""
    cache, session = _Cache(), _session()
    cache.turn(_prompt(60), session, (50, 51))
    edited = (*_prompt(20), *_prompt(40, first=200))
    assert cache.turn(edited, session, (1, 2)).cached == 20
    assert len(session.conversations) == 2


def test_short_conversations_with_a_common_beginning_are_kept_apart() -> None:
    """Their templates and system prompt are the same; their answers may be long."""
    cache, session = _Cache(128), _session()
    first, second = (1, 2, 3, 10, 11, 4, 5, 6), (1, 2, 3, 20, 21, 4, 5, 6)
    long_answer = _prompt(100, first=300)
    cache.turn(first, session, long_answer)
    cache.turn(second, session, (7, 8))
    assert cache.turn((*first, *long_answer, 9), session, (1,)).cached == 107


def test_an_id_keeps_its_newest_conversations_and_says_when_it_displaces_one() -> None:
    """Reference, `session_conflict`."""
    cache, session = _Cache(200), _session()
    for number in range(MOST_CONVERSATIONS):
        assert not cache.turn(_prompt(20, first=100 * number), session, (1, 2)).conflict
    assert not cache.turn((*_prompt(20), 1, 2, 3), session, (4,)).conflict, "it continues one"
    assert cache.turn(_prompt(20, first=5000), session, (1, 2)).conflict
    assert len(session.conversations) == MOST_CONVERSATIONS
    kept = {tokens[0] for tokens in _kept(session)}
    assert 0 in kept and 5000 in kept and 100 not in kept, "the least recently used one went"


def test_a_prompt_of_one_token_said_again_and_again_is_one_conversation() -> None:
    cache, session = _Cache(), _session()
    for _ in range(MOST_CONVERSATIONS + 1):
        assert not cache.turn((1,), session, (2, 3)).conflict
    assert len(session.conversations) == 1


def test_the_least_recently_used_conversation_makes_room() -> None:
    cache = _Cache(pages=12)
    old, young = _session("old"), _session("young")
    cache.turn(_prompt(14), old, (1, 2))
    cache.turn(_prompt(14, first=50), young, (1, 2))
    assert cache.turn((*_prompt(14), 1, 2), old, (3,)).cached == 15, "old is used again"
    assert cache.free == 4
    lease = cache.lease(_prompt(14, first=90), None)
    assert lease is not None and lease.promised == 1
    assert young.conversations, "a page that is only promised is still kept for others"
    cache.cache.extend(lease, 17)
    cache.cache.check()
    assert not young.conversations and len(old.conversations) == 1
    assert len(lease.pages) == 5 and lease.promised == 0


def test_a_promise_is_kept_whoever_comes_later() -> None:
    """An admitted sequence always finishes: what it may come to need is lent to nobody else."""
    cache, session = _Cache(pages=8), _session()
    cache.turn(_prompt(6), session, (1, 2))
    first = cache.lease(_prompt(4, first=90), None, answer=17)
    assert first is not None and (len(first.pages), first.promised) == (1, 4)
    assert cache.lease(_prompt(13, first=50), None, answer=1) is None
    second = cache.lease(_prompt(12, first=50), None, answer=1)
    assert second is not None and len(second.pages) == 3
    (kept,) = session.conversations
    assert cache.cache.borrow(kept) is None, "an export would hold what is promised"
    for tokens in range(4, 21):
        cache.cache.extend(first, tokens)
        cache.cache.check()
    assert (len(first.pages), first.promised, cache.free) == (5, 0, 0)
    assert not session.conversations, "it has made room"


def test_leased_pages_are_never_taken_away() -> None:
    """Nor those that a running turn shares with a conversation that is forgotten under it."""
    cache, session = _Cache(pages=8), _session()
    cache.turn(_prompt(14), session, (1, 2))
    running = cache.lease((*_prompt(14), 1, 2, 3), session)
    assert running is not None and running.cached == 15
    shared = {*running.pages, running.copied_page}
    assert cache.lease(_prompt(12, first=90), None) is None, "three pages are free, it needs four"
    small = cache.lease(_prompt(4, first=90), None)
    assert small is not None and not {*small.pages} & shared
    cache.cache.settle(small)
    cache.cache.settle(running)
    assert cache.free == 4


def test_nothing_is_held_after_a_lease_that_failed() -> None:
    cache, session = _Cache(pages=8), _session()
    cache.turn(_prompt(14), session, (1, 2))
    blocker = cache.lease(_prompt(8, first=90), None)
    assert blocker is not None
    assert cache.lease((*_prompt(14), 1, 2, *_prompt(10)), session) is None
    cache.cache.settle(blocker)
    cache.cache.forget_all()
    cache.cache.check()
    assert cache.free == 8


def test_a_pool_of_one_window_does_not_block_itself() -> None:
    """The page to copy from would be one too many: the turn resumes at a whole page."""
    cache, session = _Cache(pages=8), _session()
    cache.turn(_prompt(14), session, (1, 2, 3))
    lease = cache.lease((*_prompt(14), 1, 2, 3, 4), session, answer=15)
    assert lease is not None and len(lease.pages) + lease.promised == 8
    assert (lease.cached, lease.copied_page) == (16, None)
    cache.cache.settle(lease)
    cache.turn(_prompt(14), session, (1, 2))
    lease = cache.lease((*_prompt(14), 1, 2, 9), session, answer=16)
    assert lease is not None and (lease.cached, lease.copied_page) == (12, None)


def test_a_released_session_keeps_nothing_of_what_still_runs() -> None:
    cache, session = _Cache(), _session()
    lease = cache.lease(_prompt(10), session)
    assert lease is not None
    session.live = False
    cache.cache.settle(lease, session, _prompt(12), held=11, prompt_tokens=10)
    assert not session.conversations and cache.free == 64


def test_a_lease_taken_before_the_device_lost_its_memory_leaves_nothing() -> None:
    """Whoever settles last: the pages hold nothing any more."""
    cache, session = _Cache(), _session()
    lease = cache.lease(_prompt(10), session)
    taken = cache.cache.take(10)
    assert lease is not None and taken is not None
    cache.cache.forget_all()
    for late in (lease, taken):
        cache.cache.settle(late, session, _prompt(12), held=11, prompt_tokens=10)
    assert not session.conversations and cache.free == 64


def test_a_retry_that_is_broken_off_leaves_the_answer_that_was_there() -> None:
    """Scenario 158: the client may go on from the first answer."""
    cache, session = _Cache(), _session()
    cache.turn(_prompt(20), session, (1, 2, 3))
    lease = cache.lease(_prompt(20), session)
    assert lease is not None
    cache.cache.settle(lease, session, _prompt(20), held=20, prompt_tokens=20)
    assert _kept(session) == [(*_prompt(20), 1, 2, 3)]
    cache.cache.check()


def test_borrowed_pages_outlive_their_conversation() -> None:
    """An export reads them while other turns go on."""
    cache, session = _Cache(pages=8), _session()
    cache.turn(_prompt(14), session, (1, 2))
    (kept,) = session.conversations
    borrowed = cache.cache.borrow(kept)
    assert borrowed is not None
    other = cache.lease(_prompt(13, first=90), None)
    assert other is not None and not {*other.pages} & {*kept.pages}
    cache.cache.forget_all()
    assert cache.lease(_prompt(1), None) is None, "all eight are held"
    cache.cache.settle(borrowed)
    assert cache.free == 4


def test_restored_pages_take_the_place_of_what_they_continue() -> None:
    """Reference: restore replaces the conversation that the tokens continue, else adds one."""
    cache, session = _Cache(), _session()
    cache.turn((1, 2, 3, 4), session, (5, 6))
    cache.turn(_prompt(30, first=50), session, (5, 6))
    for tokens, conversations in [(_prompt(9, first=900), 3), ((*_prompt(30, first=50), 5, 7), 3)]:
        lease = cache.cache.take(len(tokens))
        assert lease is not None
        cache.cache.continue_at(lease, session, tokens)
        cache.cache.settle(lease, session, tokens, held=len(tokens), prompt_tokens=len(tokens))
        assert len(session.conversations) == conversations
        assert session.conversations[-1].tokens == tokens
    assert (1, 2, 3, 4, 5, 6) in _kept(session)


def test_a_forgotten_conversation_is_forgotten_by_its_session() -> None:
    cache, session = _Cache(), _session()
    cache.turn(_prompt(9), session, (1, 2))
    kept: tuple[Conversation, ...] = tuple(session.conversations)
    cache.cache.forget(kept)
    assert not session.conversations and cache.free == 64
