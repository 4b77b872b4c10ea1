"""Admission, queue and the plan of each step of one model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pantheon.engine.cache import PagePool
from pantheon.engine.scheduler.plan import DecodeRow, PrefillChunk, StepPlan
from pantheon.engine.scheduler.sequence import Sequence


class QueueFull(Exception):
    """The queue holds as many sequences as it may."""


class Scheduler:
    """Continuous batching: rows join and leave between steps.

    It owns the decode rows and lends out pages of the pool. A sequence is admitted when a row
    is free and the pool can promise every page it may come to need, so that an admitted
    sequence always finishes; the queue is first in, first out. Not safe for use by several
    threads at once: its owner holds a lock.
    """

    def __init__(
        self, *, rows: int, queue_depth: int, chunks: tuple[int, ...], pool: PagePool
    ) -> None:
        """Make a scheduler with every row free.

        Args:
            rows: sequences decoded at once.
            queue_depth: sequences that may wait beyond those that can start at once.
            chunks: sizes, rising, that a prefill step is compiled for.
            pool: where pages come from; no one else may take from it.
        """
        self._pool = pool
        self._chunks = chunks
        self._queue_depth = queue_depth
        self._free_rows = list(range(rows - 1, -1, -1))
        self._rows = rows
        self._waiting: deque[Sequence] = deque()
        self._prefilling: deque[Sequence] = deque()
        self._decoding: list[Sequence] = []

    @property
    def idle(self) -> bool:
        """True when there is nothing to plan, now or after any step."""
        return not (self._waiting or self._prefilling or self._decoding)

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
        needed = self._pool.pages_for(sequence.most_held)
        if needed > self._pool.total:
            raise ValueError(
                f"a sequence may need at most the pool's {self._pool.total} pages, got {needed}"
            )
        self._waiting.append(sequence)
        self._admit()
        if len(self._waiting) > self._queue_depth:
            self._waiting.remove(sequence)
            raise QueueFull

    def plan(self) -> StepPlan | None:
        """Plan the next step and take it as done; None when nothing can be computed.

        A step is one chunk of the oldest unfinished prompt beside every row that decodes. While
        any row does, the largest chunk is left out, so that a long prompt slows a running
        stream down instead of stopping it.
        """
        self._admit()
        decode = tuple(self._plan_decode())
        prefill = self._plan_prefill()
        if prefill is None and not decode:
            return None
        return StepPlan(prefill, decode)

    def finish(self, sequence: Sequence) -> None:
        """Take row and pages back and admit who waits for them; or leave the queue. Idempotent.

        Steps already dispatched may still write to its pages. That is safe: the device runs
        steps in order, so whoever gets the pages next writes after them.
        """
        if sequence.over:
            return
        sequence.over = True
        if sequence.row is None:
            self._waiting.remove(sequence)
        else:
            self._take_back(sequence, sequence.row)
        self._admit()

    def expired(self, before: float) -> tuple[Sequence, ...]:
        """Sequences still in the queue that were submitted at or before a time, oldest first."""
        return tuple(sequence for sequence in self._waiting if sequence.queued_at <= before)

    def check(self) -> None:
        """Raise AssertionError unless rows, pages and sequences agree."""
        self._pool.check()
        running = [*self._prefilling, *self._decoding]
        rows = [sequence.row for sequence in running]
        assert sorted([*self._free_rows, *(row for row in rows if row is not None)]) == list(
            range(self._rows)
        ), "a row is lost or held twice"
        pages = [page for sequence in running for page in sequence.pages]
        assert len(set(pages)) == len(pages), "a page is held by two sequences"
        assert self._pool.free + len(pages) == self._pool.total, "a page is lost"
        for sequence in running:
            held = len(sequence.pages) * self._pool.page_size
            assert not sequence.over and sequence.computed <= sequence.most_held <= held
            assert sequence.sampled <= sequence.limit
        assert all(not waiting.over and waiting.row is None for waiting in self._waiting)
        assert len(self._waiting) <= self._queue_depth or self._free_rows

    def _take_back(self, sequence: Sequence, row: int) -> None:
        self._free_rows.append(row)
        self._pool.release(sequence.pages)
        sequence.row, sequence.pages = None, ()
        if sequence in self._prefilling:
            self._prefilling.remove(sequence)
        else:
            self._decoding.remove(sequence)

    def _admit(self) -> None:
        while self._waiting and self._free_rows:
            sequence = self._waiting[0]
            pages = self._pool.allocate(self._pool.pages_for(sequence.most_held))
            if pages is None:
                return
            self._waiting.popleft()
            sequence.row, sequence.pages = self._free_rows.pop(), pages
            self._prefilling.append(sequence)

    def _plan_prefill(self) -> PrefillChunk | None:
        if not self._prefilling:
            return None
        sequence = self._prefilling[0]
        start = sequence.computed
        alone = not self._decoding or len(self._chunks) == 1
        chunks = self._chunks if alone else self._chunks[:-1]
        size = chunk_size(chunks, len(sequence.prompt) - start)
        tokens = sequence.prompt[start : start + size]
        sequence.computed += len(tokens)
        last = sequence.computed == len(sequence.prompt)
        if last:
            sequence.sampled = 1
            self._decoding.append(self._prefilling.popleft())
        return PrefillChunk(
            sequence, _row_of(sequence), sequence.pages, start, tokens, first=start == 0, last=last
        )

    def _plan_decode(self) -> Iterable[DecodeRow]:
        for sequence in self._decoding:
            if sequence.sampled < sequence.limit:
                yield DecodeRow(sequence, _row_of(sequence), sequence.pages, sequence.computed)
                sequence.computed += 1
                sequence.sampled += 1


def chunk_size(chunks: tuple[int, ...], remaining: int) -> int:
    """How many of the remaining prompt tokens the next step takes.

    The smallest chunk that holds them all, unless more than half of it would be padding: then
    the largest chunk that they fill. A step's cost grows with its padded size.
    """
    holding = [chunk for chunk in chunks if chunk >= remaining]
    filled = [chunk for chunk in chunks if chunk <= remaining]
    if holding and (not filled or 2 * remaining >= holding[0]):
        return remaining
    return filled[-1]


def _row_of(sequence: Sequence) -> int:
    if sequence.row is None:
        raise ValueError("a sequence must be admitted before it is planned")
    return sequence.row
