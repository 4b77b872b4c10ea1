"""Where states of recurrent layers are kept: the counting promise and the slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.cache import (
    CHECKPOINT_GRID,
    MOST_CONVERSATIONS,
    Checkpoint,
    Lease,
    PagePool,
    PrefixCache,
    ReferencePool,
    Session,
    checkpoint_positions,
)
from pantheon.engine.cache.checkpoints import latest, worth_keeping

_EVERY = 1024


@given(st.integers(0, 5000), st.integers(1, 5000))
def test_positions_are_ahead_on_the_grid_and_leave_a_token_to_compute(
    start: int, more: int
) -> None:
    """Scenario 155: for recurrent layers, a checkpoint at the last token but one or before."""
    size = start + more
    positions = checkpoint_positions(start, size, _EVERY)
    assert list(positions) == sorted(set(positions))
    assert all(start < position < size for position in positions)
    assert all(position % CHECKPOINT_GRID == 0 for position in positions)


@given(st.integers(1, 30_000), st.integers(0, 16))
def test_a_prompt_that_parts_near_its_end_resumes_64_tokens_before_at_most(
    size: int, changed: int
) -> None:
    """Scenario 160: the last message loses a suffix, or the answer is left out."""
    shared = max(size - changed, 0)
    kept = [Checkpoint(at, 0) for at in checkpoint_positions(0, size, _EVERY)]
    resumed = latest(kept, min(shared, size - 1))
    assert shared - (0 if resumed is None else resumed.tokens) <= CHECKPOINT_GRID + 16


@given(st.integers(1, 30_000), st.integers(1, 16))
def test_no_more_than_64_tokens_beside_what_changed_are_computed_again(
    size: int, changed: int
) -> None:
    shared = max(size - changed, 0)
    kept = [Checkpoint(at, 0) for at in checkpoint_positions(0, size, _EVERY)]
    resumed = latest(worth_keeping(kept, size, _EVERY), shared)
    assert shared - (0 if resumed is None else resumed.tokens) <= CHECKPOINT_GRID


@given(st.sets(st.integers(1, 500).map(lambda n: n * 64), max_size=60), st.integers(1, 32_000))
def test_few_are_kept_the_newest_among_them(positions: set[int], prompt: int) -> None:
    kept = worth_keeping([Checkpoint(at, at) for at in positions], prompt, _EVERY)
    tokens = [one.tokens for one in kept]
    assert tokens == sorted(tokens) and len(tokens) <= 16
    assert tokens[-3:] == sorted(positions)[-3:]
    inside = sorted(at for at in positions if at <= prompt)[-2:]
    assert set(inside) <= set(tokens), "the answer may be left out of the next prompt"
    assert sum(at % _EVERY != 0 for at in set(tokens[:-3]) - set(inside)) <= 3


@given(st.lists(st.integers(65, 400), min_size=1, max_size=30), st.data())
def test_an_edit_of_an_earlier_turn_computes_again_in_proportion_to_what_changed(
    turns: list[int], data: st.DataObject
) -> None:
    """Scenario 154; each turn has added a checkpoint where it ends, and two in its prompt."""
    kept: tuple[Checkpoint, ...] = ()
    end = 0
    for size in turns:
        prompt = end + size
        new = checkpoint_positions(kept[-1].tokens if kept else 0, prompt, _EVERY)
        end = prompt + 10
        kept = worth_keeping([*kept, *(Checkpoint(at, 0) for at in (*new, end))], prompt, _EVERY)
    shared = data.draw(st.integers(0, end - 1))
    resumed = latest(kept, shared)
    again = end - (0 if resumed is None else resumed.tokens)
    assert again <= 4 * (end - shared) + 8 * CHECKPOINT_GRID or shared < end - _EVERY


class _Turns:
    def __init__(self, slots: int) -> None:
        self.cache = PrefixCache(PagePool(600, 64), ReferencePool(slots), _EVERY)
        self.slots = slots

    def prefill(self, lease: Lease, size: int) -> list[int | None]:
        """Take every checkpoint that the prompt is cut for."""
        taken = []
        for position in checkpoint_positions(lease.cached, size, _EVERY):
            taken.append(self.cache.checkpoint(lease, position))
            self.cache.check()
        return taken

    def turn(self, prompt: tuple[int, ...], session: Session, answer: int) -> Lease:
        lease = self.cache.lease(prompt, len(prompt) + answer, session)
        assert lease is not None
        self.prefill(lease, len(prompt))
        tokens = prompt + tuple(range(10**6, 10**6 + answer))
        self.cache.extend(lease, len(tokens))
        self.cache.checkpoint(lease, len(tokens))
        self.cache.settle(lease, session, tokens, held=len(tokens), prompt_tokens=len(prompt))
        self.cache.check()
        return lease


def _prompt(size: int) -> tuple[int, ...]:
    return tuple(range(size))


@pytest.mark.parametrize("slots", [4, 16, 40])
@pytest.mark.parametrize("size", [100, 20_000])
def test_one_prompt_never_runs_out_of_slots(slots: int, size: int) -> None:
    """The places that the next turn resumes from are the last ones it comes to."""
    turns, session = _Turns(slots), Session("s", 0.0)
    turns.turn(_prompt(size), session, 10)
    (kept,) = session.conversations
    tokens = [one.tokens for one in kept.checkpoints]
    last = (size - 1) // 64 * 64
    assert tokens[-2:] == [last, size + 10]
    assert len(tokens) <= min(slots, 16)
    again = turns.cache.lease((*kept.tokens, 5), size + 20, session)
    assert again is not None and again.cached == size + 10
    assert again.resumed is not None and again.resumed.slot == kept.checkpoints[-1].slot


def test_without_a_state_nothing_can_be_resumed() -> None:
    """Keys and values are there, and are not enough (scenario 154)."""
    turns, session = _Turns(8), Session("s", 0.0)
    turns.turn(_prompt(50), session, 10)
    lease = turns.cache.lease(_prompt(55), 60, session)
    assert lease is not None
    assert (lease.cached, lease.resumed, lease.copied_page) == (0, None, None)


def test_a_short_prompt_tried_again_is_one_conversation() -> None:
    """It has no checkpoint to resume from; it takes the place of the last try all the same."""
    turns, session = _Turns(8), Session("s", 0.0)
    for _ in range(MOST_CONVERSATIONS + 1):
        assert not turns.turn(_prompt(50), session, 10).conflict
    assert len(session.conversations) == 1


def test_older_checkpoints_serve_an_edit_far_back() -> None:
    turns, session = _Turns(40), Session("s", 0.0)
    turns.turn(_prompt(5000), session, 10)
    lease = turns.cache.lease((*_prompt(3000), 7, 7), 3010, session)
    assert lease is not None and lease.cached == 2048
    assert [one.tokens for one in lease.checkpoints] == [1024, 2048]


def test_a_conversation_that_is_not_used_gives_its_slots_to_a_running_one() -> None:
    turns, old, new = _Turns(5), Session("old", 0.0), Session("new", 0.0)
    turns.turn(_prompt(300), old, 10)
    turns.turn((9, *_prompt(300)), new, 10)
    assert not old.conversations
    assert [one.tokens for one in new.conversations[0].checkpoints] == [192, 256, 311]


def test_slots_of_other_running_sequences_are_never_taken() -> None:
    turns, session = _Turns(2), Session("s", 0.0)
    running = turns.cache.lease(_prompt(300), 310, session)
    other = turns.cache.lease((9, *_prompt(300)), 310, Session("t", 0.0))
    assert running is not None and other is not None
    assert turns.prefill(running, 300) == [0, 1]
    assert turns.prefill(other, 301) == [None, None]
    assert len(running.checkpoints) == 2


def test_a_window_that_fills_the_pool_resumes_at_a_state_on_a_page_end() -> None:
    """The partial page cannot be copied: there is no page to copy it to."""
    cache = PrefixCache(PagePool(4, 64), ReferencePool(8), _EVERY)
    session = Session("s", 0.0)
    lease = cache.lease(_prompt(200), 210, session)
    assert lease is not None
    for tokens in (128, 192, 210):
        cache.checkpoint(lease, tokens)
    tokens = _prompt(211)
    cache.settle(lease, session, tokens, held=210, prompt_tokens=200)
    again = cache.lease(_prompt(220), 256, session)
    cache.check()
    assert again is not None and again.resumed is not None
    assert (again.cached, again.resumed.tokens, again.copied_page) == (192, 192, None)
    assert [one.tokens for one in again.checkpoints] == [128, 192]
