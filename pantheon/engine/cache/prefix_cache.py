"""Who holds which page: running sequences, and conversations between their turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pantheon.engine.cache.checkpoints import Checkpoint, latest, worth_keeping
from pantheon.engine.cache.conversation import (
    Conversation,
    common_prefix,
    continued,
    shared_tokens,
)
from pantheon.engine.cache.lease import Lease
from pantheon.engine.cache.pages import PagePool
from pantheon.engine.cache.references import ReferencePool
from pantheon.engine.cache.sessions import Session

MOST_CONVERSATIONS = 8
"""Conversations that one session id keeps; a further one takes the place of the oldest."""


class PrefixCache:
    """Lends pages to sequences and keeps those of conversations for their next turn.

    It owns the pages and the checkpoint slots. A conversation that is kept holds its pages until
    its session ends, another turn of it takes its place, or a sequence needs them: then the least
    recently used conversation is forgotten. That happens when the tokens are there and not when
    they are asked for: what a sequence may come to need is promised to it, and pages that are
    promised may still be kept for others. What is leased and promised is never more than all.
    Not safe for use by several threads at once.
    """

    def __init__(
        self, pool: PagePool, slots: ReferencePool | None = None, checkpoint_every: int = 1024
    ) -> None:
        """Start with nothing kept.

        Args:
            pool: the pages; no one else may take from it.
            slots: where states of recurrent layers are kept; None for a model without them.
            checkpoint_every: tokens between the checkpoints that serve edits far back.
        """
        self.pool = pool
        self.checkpoint_every = checkpoint_every
        self._slots = slots
        self._leases: set[Lease] = set()
        self._leased: Counter[int] = Counter()
        self._promised = 0
        # Least recently used first.
        self._kept: dict[Conversation, Session] = {}

    @property
    def recurrent(self) -> bool:
        """Whether a sequence can only resume from a checkpoint."""
        return self._slots is not None

    def lease(self, prompt: tuple[int, ...], tokens: int, session: Session | None) -> Lease | None:
        """Take the prompt's pages, those of a cached prefix among them; the rest is promised.

        At least one token of the prompt is left to compute.

        Args:
            tokens: most tokens that the sequence may come to hold.

        Returns:
            None when running sequences hold too many pages.
        """
        lease = Lease((), prompt_tokens=len(prompt))
        if session is not None:
            self._find(lease, prompt, session)
        if lease.source is not None:
            self._touch(lease.source)
        if not self._fill(lease, len(prompt), tokens):
            if lease.copied_page is None:
                return None
            # The page to copy from may be the one too many: whole pages need no copy.
            self._cut_to_pages(lease)
            if not self._fill(lease, len(prompt), tokens):
                return None
        self._leases.add(lease)
        return lease

    def extend(self, lease: Lease, tokens: int) -> None:
        """Make a lease's pages hold `tokens` tokens, out of what was promised to it."""
        missing = self.pool.pages_for(tokens) - len(lease.pages)
        if missing > 0:
            lease.promised -= missing
            self._promised -= missing
            lease.pages += self._allocate(missing)

    def copied(self, lease: Lease) -> None:
        """The copy of `copied_page` is planned: whoever gets the page next writes after it."""
        if lease.copied_page is not None:
            page, lease.copied_page = lease.copied_page, None
            self._let_go((page,), ())

    def checkpoint(self, lease: Lease, tokens: int) -> int | None:
        """A slot for the state after `tokens` tokens; None when other sequences hold them all.

        A long prompt has more of them than are kept in the end: older ones make room. The state
        that the sequence resumed from must have been loaded, or be about to be in the same chunk.
        """
        if self._slots is None:
            return None
        worth = worth_keeping(lease.checkpoints, lease.prompt_tokens, self.checkpoint_every)
        self._drop(lease, [one for one in lease.checkpoints if one not in worth])
        while not self._slots.free:
            victim = next((kept for kept in self._kept if kept.checkpoints), None)
            if victim is not None:
                self.forget((victim,))
            elif lease.checkpoints:
                self._drop(lease, (min(lease.checkpoints, key=lambda one: one.tokens),))
            else:
                return None
        taken = self._slots.allocate(1)
        assert taken is not None, "a slot was freed"
        lease.checkpoints.append(Checkpoint(tokens, taken[0]))
        return taken[0]

    def settle(
        self,
        lease: Lease,
        session: Session | None = None,
        tokens: tuple[int, ...] = (),
        *,
        held: int = 0,
        prompt_tokens: int = 0,
        answer_ends: tuple[int, ...] = (),
    ) -> None:
        """Take a lease back; keep the first `held` of `tokens` as a conversation of the session.

        Nothing is kept without a live session, or of a turn that has computed nothing new: one
        that was broken off when it had got no further than the last turn.
        """
        self.copied(lease)
        self._leases.remove(lease)
        self._promised -= lease.promised
        keep = (
            session is not None
            and session.live
            and not lease.lost
            and held > lease.cached
            and not self._still_kept(lease.continues, tokens[:held], answer_ends)
        )
        pages = lease.pages[: self.pool.pages_for(held)] if keep else ()
        within = [one for one in lease.checkpoints if keep and one.tokens <= held]
        checkpoints = worth_keeping(within, prompt_tokens, self.checkpoint_every)
        self.pool.share(pages)
        if self._slots is not None:
            self._slots.share(one.slot for one in checkpoints)
        self._let_go(lease.pages, lease.checkpoints)
        if keep and session is not None:
            if lease.continues in self._kept:
                self.forget((lease.continues,))
            self._keep(
                session,
                Conversation(tokens, held, prompt_tokens, answer_ends, pages, checkpoints),
            )

    def forget(self, conversations: Iterable[Conversation]) -> None:
        """Give the pages and slots of conversations back."""
        for conversation in tuple(conversations):
            session = self._kept.pop(conversation)
            if conversation in session.conversations:
                session.conversations.remove(conversation)
            self.pool.release(conversation.pages)
            if self._slots is not None:
                self._slots.release(one.slot for one in conversation.checkpoints)

    def borrow(self, conversation: Conversation) -> Lease | None:
        """Hold what a conversation has while somebody reads it; `settle` ends it.

        Returns:
            None when its pages are promised to running sequences, which may need them at any time.
        """
        if not self._has_room(sum(page not in self._leased for page in conversation.pages)):
            return None
        self._hold(conversation.pages, conversation.checkpoints)
        lease = self._leased_pages(conversation.pages)
        lease.checkpoints.extend(conversation.checkpoints)
        return lease

    def take(self, tokens: int) -> Lease | None:
        """Take fresh pages for `tokens` tokens that come from outside; None as in `lease`."""
        count = self.pool.pages_for(tokens)
        return self._leased_pages(self._allocate(count)) if self._has_room(count) else None

    def continue_at(self, lease: Lease, session: Session, tokens: tuple[int, ...]) -> None:
        """Let pages that came from outside take the place of the conversation they continue."""
        lease.continues = continued(shared_tokens(tokens, session.conversations))

    def forget_all(self) -> None:
        """The device has lost everything: give back what is kept, keep nothing of what runs."""
        self.forget(tuple(self._kept))
        for lease in self._leases:
            lease.lost = True

    def check(self) -> None:
        """Raise AssertionError unless every page and slot has the holders that it counts."""
        pages = [page for lease in self._leases for page in lease.pages]
        pages += [one.copied_page for one in self._leases if one.copied_page is not None]
        assert Counter(pages) == self._leased, "leases and leased pages disagree"
        assert self._promised == sum(lease.promised for lease in self._leases)
        assert len(self._leased) + self._promised <= self.pool.total, "more promised than there is"
        kept = [page for conversation in self._kept for page in conversation.pages]
        self.pool.check([*pages, *kept])
        if self._slots is not None:
            held = [one.slot for lease in self._leases for one in lease.checkpoints]
            held += [one.slot for conversation in self._kept for one in conversation.checkpoints]
            self._slots.check(held)
        for conversation, session in self._kept.items():
            assert conversation in session.conversations
            assert conversation.held <= len(conversation.tokens)
            assert len(conversation.pages) == self.pool.pages_for(conversation.held)

    def _find(self, lease: Lease, prompt: tuple[int, ...], session: Session) -> None:
        """Find the conversation of which most can be used again."""
        shares = shared_tokens(prompt, session.conversations)
        for conversation, shared in shares.items():
            cached, resumed = min(shared, len(prompt) - 1), None
            if self.recurrent:
                resumed = latest(conversation.checkpoints, cached)
                cached = 0 if resumed is None else resumed.tokens
            if cached > lease.cached:
                lease.cached, lease.resumed, lease.source = cached, resumed, conversation
        if lease.source is not None:
            index, used = divmod(lease.cached, self.pool.page_size)
            lease.copied_page = lease.source.pages[index] if used else None
            lease.checkpoints = [
                one for one in lease.source.checkpoints if one.tokens <= lease.cached
            ]
        lease.continues = continued(shares)
        full = len(session.conversations) >= MOST_CONVERSATIONS
        lease.conflict = full and lease.continues is None

    def _fill(self, lease: Lease, prompt_tokens: int, tokens: int) -> bool:
        """Give a lease its pages and promises; False, and nothing is held, if there are too few."""
        shared: tuple[int, ...] = ()
        if lease.source is not None:
            shared = lease.source.pages[: lease.cached // self.pool.page_size]
        tail = () if lease.copied_page is None else (lease.copied_page,)
        # Held before room is made: that may forget the very conversation they are of.
        self._hold((*shared, *tail), lease.checkpoints)
        if not self._has_room(self.pool.pages_for(tokens) - len(shared)):
            self._let_go((*shared, *tail), lease.checkpoints)
            return False
        lease.pages = shared + self._allocate(self.pool.pages_for(prompt_tokens) - len(shared))
        lease.promised = self.pool.pages_for(tokens) - len(lease.pages)
        self._promised += lease.promised
        return True

    def _cut_to_pages(self, lease: Lease) -> None:
        size = self.pool.page_size
        lease.cached -= lease.cached % size
        lease.copied_page = None
        if self.recurrent:
            whole = [one for one in lease.checkpoints if one.tokens % size == 0]
            lease.resumed = latest(whole, lease.cached)
            lease.cached = 0 if lease.resumed is None else lease.resumed.tokens
            lease.checkpoints = [one for one in whole if one.tokens <= lease.cached]

    def _still_kept(
        self, earlier: Conversation | None, tokens: tuple[int, ...], answer_ends: tuple[int, ...]
    ) -> bool:
        """Whether a conversation that is kept has all of this and more."""
        return (
            earlier is not None
            and earlier in self._kept
            and len(tokens) < earlier.held
            and set(answer_ends) <= set(earlier.answer_ends)
            and common_prefix(tokens, earlier.tokens) == len(tokens)
        )

    def _keep(self, session: Session, conversation: Conversation) -> None:
        session.conversations.append(conversation)
        self._kept[conversation] = session
        if len(session.conversations) > MOST_CONVERSATIONS:
            self.forget((session.conversations[0],))

    def _drop(self, lease: Lease, checkpoints: Iterable[Checkpoint]) -> None:
        for checkpoint in tuple(checkpoints):
            lease.checkpoints.remove(checkpoint)
            self._let_go((), (checkpoint,))

    def _leased_pages(self, pages: tuple[int, ...]) -> Lease:
        lease = Lease(pages)
        self._leases.add(lease)
        return lease

    def _touch(self, conversation: Conversation) -> None:
        session = self._kept.pop(conversation)
        self._kept[conversation] = session
        session.conversations.remove(conversation)
        session.conversations.append(conversation)

    def _has_room(self, count: int) -> bool:
        """Whether so many pages can be leased or promised beside all that are."""
        return len(self._leased) + self._promised + count <= self.pool.total

    def _allocate(self, count: int) -> tuple[int, ...]:
        """Take pages that there is room for, forgetting conversations for them, oldest first."""
        # Pages that no sequence holds are free once every conversation is forgotten.
        while self.pool.free < count:
            self.forget((next(iter(self._kept)),))
        own = self.pool.allocate(count)
        assert own is not None, "room was made for them"
        self._leased.update(own)
        return own

    def _hold(self, pages: tuple[int, ...], checkpoints: Iterable[Checkpoint]) -> None:
        self.pool.share(pages)
        self._leased.update(pages)
        if self._slots is not None:
            self._slots.share(one.slot for one in checkpoints)

    def _let_go(self, pages: tuple[int, ...], checkpoints: Iterable[Checkpoint]) -> None:
        self.pool.release(pages)
        self._leased.subtract(pages)
        for page in pages:
            if not self._leased[page]:
                del self._leased[page]
        if self._slots is not None:
            self._slots.release(one.slot for one in checkpoints)
