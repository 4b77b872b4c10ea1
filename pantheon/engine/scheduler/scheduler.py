"""Admission, queue and the plan of each step of one model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from pantheon.engine.cache import CHECKPOINT_GRID, PrefixCache, checkpoint_positions
from pantheon.engine.scheduler.plan import DecodeRow, PrefillChunk, RowStart, StateSave, StepPlan
from pantheon.engine.scheduler.sequence import Sequence

_OLDEST_EVERY: Final = 4
"""Of so many chunks one goes to the prompt that was admitted first."""

_SHORT_PROMPT: Final = 4
"""Chunks of a prompt that is computed at once while rows decode."""


class QueueFull(Exception):
    """The queue holds as many sequences as it may."""


class Scheduler:
    """Continuous batching: rows join and leave between steps.

    It owns the decode rows and leases pages from the cache. A sequence is admitted when a row is
    free and the cache can promise every page it may come to need, so that an admitted sequence
    always finishes; the queue is first in, first out. Not safe for use by several threads at
    once: its owner holds a lock.

    Prefill follows a grid: a chunk never crosses a multiple of the chunk size, whatever else runs
    and wherever a cached prefix ends. So each position of a prompt is computed by the same
    program at the same place in it, and its keys and values are the same alone, in company and
    after a part of the prompt was cached. The last token of a prompt is fed by a decode step, which
    samples the first of the answer: so several answers can begin in one step.
    """

    def __init__(
        self,
        *,
        rows: int,
        queue_depth: int,
        chunk: int,
        cache: PrefixCache,
        pace: int = 0,
    ) -> None:
        """Make a scheduler with every row free.

        Args:
            rows: sequences decoded at once.
            queue_depth: sequences that may wait beyond those that can start at once.
            chunk: tokens of a prefill step.
            cache: where pages come from.
            pace: decode steps without a chunk of prefill after each that has one, while rows
                decode.
        """
        self._cache = cache
        self.chunk = chunk
        """Tokens of a prefill step, and the grid on which they stand."""
        self._queue_depth = queue_depth
        self._free_rows = list(range(rows - 1, -1, -1))
        self._rows = rows
        self.row_limit = rows
        """Rows that may be in use; fewer than there are under memory pressure."""
        self.pace = pace
        self._owed = 0
        self._gathered = 0
        self._waiting: deque[Sequence] = deque()
        self._prefilling: list[Sequence] = []
        self._ready: list[Sequence] = []
        self._chunks = 0
        self._decoding: list[Sequence] = []
        self._saves: list[StateSave] = []
        self._starts: list[RowStart] = []

    @property
    def idle(self) -> bool:
        """True when there is nothing to plan, now or after any step."""
        running = self._prefilling or self._ready or self._decoding
        return not (self._waiting or running or self._saves)

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence and admit it if its turn has come.

        Raises:
            QueueFull: it cannot start at once and the queue is full.
            ValueError: it may need more pages than the whole pool has.
        """
        pool = self._cache.pool
        needed = pool.pages_for(sequence.most_held)
        if needed > pool.total:
            raise ValueError(
                f"a sequence may need at most the pool's {pool.total} pages, got {needed}"
            )
        self._waiting.append(sequence)
        self._admit()
        if len(self._waiting) > self._queue_depth:
            self._waiting.remove(sequence)
            raise QueueFull

    @property
    def prefilling(self) -> tuple[Sequence, ...]:
        """Sequences in a row of whose prompt more than the last token is not computed."""
        return tuple(self._prefilling)

    @property
    def decoding(self) -> tuple[Sequence, ...]:
        """Sequences that have a row in the next decode step, but for those that begin with it."""
        return tuple(self._decoding)

    def plan(
        self,
        draft: Callable[[Sequence, int], tuple[int, ...]] = lambda sequence, most: (),
        drafts: int = 0,
    ) -> StepPlan | None:
        """Plan the next step and take it as done; None when nothing can be computed.

        A step is every row that decodes, and a chunk of one unfinished prompt: of the one with
        the fewest chunks left (shortest remaining processing time: Schrage, 1968), so that a
        short one does not wait for a long one and equal ones end one after another; every fourth
        goes to the oldest, so that a long one is not left behind. While any row decodes, a chunk
        owes it `pace` steps without another: a long prompt slows a running stream, and does not
        stop it. A prompt of few chunks need not wait between them; what it owes is made up for
        afterwards.

        An answer begins when the other short prompts that have a row are computed as well: else
        it would begin in the pauses between their chunks, in steps that decode few rows.

        Args:
            draft: gives at most so many tokens that may follow a sequence's newest one. Of them
                nothing is taken as done: see `accept`. A model with recurrent layers takes none.
            drafts: how many are planned at most in all; of rows that begin with this step each
                takes the place of one.
        """
        self._admit()
        begun = self._begin_ready()
        decode = tuple(self._plan_decode(draft, max(drafts - begun, 0)))
        saves, self._saves = tuple(self._saves), []
        prefill = None
        if not decode:
            self._owed = 0
        if self._prefilling and self._owed <= self._credit(self._next_prompt()):
            self._owed += self.pace
            prefill = self._plan_prefill()
        else:
            self._owed = max(self._owed - 1, 0)
        starts, self._starts = tuple(self._starts), []
        if prefill is None and not decode and not saves:
            return None
        return StepPlan(prefill, decode, saves, starts)

    def accept(self, sequence: Sequence) -> None:
        """The first of the drafts in a sequence's last step that were not accepted yet was right.

        So the step has computed and sampled a token more than was planned.
        """
        if not sequence.over:
            sequence.computed += 1
            sequence.sampled += 1

    def finish(
        self, sequence: Sequence, sampled: tuple[int, ...] | None = None, *, lost: bool = False
    ) -> None:
        """Take row and pages back and admit who waits for them; or leave the queue. Idempotent.

        Steps already dispatched may still write to its pages. That is safe: the device runs
        steps in order, so whoever gets the pages next writes after them.

        Args:
            sampled: the whole answer, which its session keeps; None when the sequence was broken
                off, of which only the prompt is kept.
            lost: nothing is kept, because the device has lost it.
        """
        if sequence.over:
            return
        sequence.over = True
        if sequence.row is None:
            self._waiting.remove(sequence)
        else:
            self._take_back(sequence, sequence.row, sampled, lost)
        self._admit()

    def expired(self, before: float) -> tuple[Sequence, ...]:
        """Sequences still in the queue that were submitted at or before a time, oldest first."""
        return tuple(sequence for sequence in self._waiting if sequence.queued_at <= before)

    def lose_cache(self) -> None:
        """The device has lost its memory: forget what is kept between turns."""
        self._saves.clear()
        self._cache.forget_all()

    def check(self) -> None:
        """Raise AssertionError unless rows, pages and sequences agree."""
        self._cache.check()
        running = [*self._prefilling, *self._ready, *self._decoding]
        rows = [sequence.row for sequence in running]
        assert sorted([*self._free_rows, *(row for row in rows if row is not None)]) == list(
            range(self._rows)
        ), "a row is lost or held twice"
        written = [
            page
            for sequence in running
            for page in sequence.pages[sequence.cached // self._cache.pool.page_size :]
        ]
        assert len(set(written)) == len(written), "two sequences may write to one page"
        for sequence in running:
            held = len(sequence.pages) * self._cache.pool.page_size
            assert not sequence.over and sequence.computed <= min(sequence.most_held, held)
            assert sequence.lease is not None, "an admitted sequence has a lease"
            sure = len(sequence.pages) + sequence.lease.promised
            assert sequence.most_held <= sure * self._cache.pool.page_size
            assert sequence.sampled <= sequence.limit
            assert sequence.cached < len(sequence.prompt), "nothing was left to compute"
        assert all(not waiting.over and waiting.row is None for waiting in self._waiting)
        assert len(self._waiting) <= self._queue_depth or self._free_rows

    def _take_back(
        self, sequence: Sequence, row: int, sampled: tuple[int, ...] | None, lost: bool
    ) -> None:
        lease = sequence.lease
        assert lease is not None, "an admitted sequence has a lease"
        tokens, ends = sequence.prompt[: sequence.computed], sequence.answer_ends
        held = len(tokens)
        if sampled is not None and not lost:
            tokens = sequence.prompt + sampled
            # The token that ended the turn belongs to the answer or only closes it.
            ends = (*ends, len(tokens) - 1, len(tokens))
            # The last token may have been fed before it was read; only a state has no way back.
            held = sequence.computed if self._cache.recurrent else len(tokens) - 1
            self._save_state(sequence, row, held)
        self._cache.settle(
            lease,
            None if lost else sequence.session,
            tokens,
            held=held,
            prompt_tokens=len(sequence.prompt),
            answer_ends=tuple(end for end in ends if end <= len(tokens)),
        )
        self._free_rows.append(row)
        sequence.row, sequence.lease = None, None
        for where in (self._prefilling, self._ready, self._decoding):
            if sequence in where:
                where.remove(sequence)

    def _save_state(self, sequence: Sequence, row: int, tokens: int) -> None:
        if sequence.lease is not None and sequence.session is not None:
            slot = self._cache.checkpoint(sequence.lease, tokens)
            if slot is not None:
                self._saves.append(StateSave(row, slot))

    def _admit(self) -> None:
        while self._waiting and self._free_rows:
            if self._rows - len(self._free_rows) >= self.row_limit:
                return
            sequence = self._waiting[0]
            lease = self._cache.lease(sequence.prompt, sequence.most_held, sequence.session)
            if lease is None:
                return
            self._waiting.popleft()
            sequence.row, sequence.lease = self._free_rows.pop(), lease
            sequence.computed = sequence.cached = lease.cached
            is_ready = sequence.computed == len(sequence.prompt) - 1
            (self._ready if is_ready else self._prefilling).append(sequence)

    def _begin_ready(self) -> int:
        """See `plan`; how many begin. However many come and go meanwhile, nobody waits for more
        chunks than short prompts in all rows have.
        """
        if not self._ready:
            self._gathered = 0
        is_enough = self._gathered >= self._rows * _SHORT_PROMPT
        if any(map(self._is_short, self._prefilling)) and not is_enough:
            return 0
        begun, self._ready = self._ready, []
        self._decoding += begun
        return len(begun)

    def _plan_start(self, sequence: Sequence) -> None:
        """Before anything of a sequence is planned."""
        lease, start = sequence.lease, sequence.computed
        assert lease is not None and sequence.row is not None, "an admitted sequence has both"
        if start != sequence.cached:
            return
        copy_page = None
        if lease.copied_page is not None:
            copy_page = (lease.copied_page, lease.pages[start // self._cache.pool.page_size])
            self._cache.copied(lease)
        slot = None if lease.resumed is None else lease.resumed.slot
        self._starts.append(RowStart(sequence, sequence.row, copy_page, slot))

    def _plan_prefill(self) -> PrefillChunk:
        sequence = self._next_prompt()
        self._chunks += 1
        self._gathered += 1
        self._plan_start(sequence)
        lease = sequence.lease
        assert lease is not None and sequence.row is not None, "an admitted sequence has both"
        start, size = sequence.computed, len(sequence.prompt)
        stop = min(start - start % self.chunk + self.chunk, size - 1)
        save_state = None
        if self._cache.recurrent and sequence.session is not None:
            kept = checkpoint_positions(start, size, self._cache.checkpoint_every)
            stop = min((stop, *kept))
            save_state = self._cache.checkpoint(lease, stop) if stop in kept else None
        sequence.computed = stop
        if stop == size - 1:
            self._prefilling.remove(sequence)
            self._ready.append(sequence)
        tokens = sequence.prompt[start:stop]
        return PrefillChunk(sequence, sequence.row, lease.pages, start, tokens, save_state)

    def _next_prompt(self) -> Sequence:
        """See `plan`. The prompts stand in the order in which they were admitted."""
        if self._chunks % _OLDEST_EVERY == _OLDEST_EVERY - 1:
            return self._prefilling[0]
        return min(self._prefilling, key=self._chunks_left)

    def _is_short(self, sequence: Sequence) -> bool:
        return self._chunks_from(sequence.cached, sequence) <= _SHORT_PROMPT

    def _chunks_left(self, sequence: Sequence) -> int:
        return self._chunks_from(sequence.computed, sequence)

    def _chunks_from(self, position: int, sequence: Sequence) -> int:
        return -(-len(sequence.prompt) // self.chunk) - position // self.chunk

    def _credit(self, sequence: Sequence) -> int:
        """Steps that may be owed to running rows when a chunk of a prompt begins."""
        return self.pace * (_SHORT_PROMPT - 1) if self._is_short(sequence) else 0

    def _plan_decode(
        self, draft: Callable[[Sequence, int], tuple[int, ...]], spare: int
    ) -> Iterable[DecodeRow]:
        for index, sequence in enumerate(self._decoding):
            if sequence.sampled < sequence.limit:
                assert sequence.row is not None and sequence.lease is not None, "admitted"
                begins = sequence.sampled == 0
                if begins:
                    self._plan_start(sequence)
                share = -(-spare // (len(self._decoding) - index))
                most = 0 if begins else min(share, sequence.limit - sequence.sampled - 1)
                drafts = draft(sequence, most) if most > 0 else ()
                spare -= len(drafts)
                self._cache.extend(sequence.lease, sequence.computed + 1 + len(drafts))
                # The token that ends a turn may be fed before it is read, and be another in the
                # next prompt: from here at most the grid is computed again.
                if sequence.computed % CHECKPOINT_GRID == 0 and not begins:
                    self._save_state(sequence, sequence.row, sequence.computed)
                fed = sequence.prompt[-1] if begins else None
                yield DecodeRow(
                    sequence, sequence.row, sequence.pages, sequence.computed, drafts, fed
                )
                sequence.computed += 1
                sequence.sampled += 1
