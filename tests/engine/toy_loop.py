"""A real step loop with sessions over a toy device, and clients that talk to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pantheon.engine.answer import Answer
from pantheon.engine.cache import PagePool, PrefixCache, ReferencePool, SessionTable
from pantheon.engine.completion import EventStream
from pantheon.engine.config import Speculation
from pantheon.engine.drafting import Drafting, Guesser
from pantheon.engine.events import Event, Failed, Finished, TextDelta
from pantheon.engine.generation import Generation
from pantheon.engine.scheduler import Scheduler
from pantheon.engine.scheduler import Sequence as Prompt
from pantheon.engine.step_loop import StepLoop
from tests.engine.toy_device import GREEDY, ToyDevice, ToyTokens

WAIT_S = 10.0


class Numbers:
    """Token bytes and decoder of a vocabulary whose tokens are their numbers."""

    between_characters = True
    latest = b""

    def get(self, token: int, *, special: bool = False) -> bytes:
        return f"{token} ".encode()

    def push(self, token_id: int) -> str:
        self.latest = self.get(token_id)
        return self.latest.decode()

    def flush(self) -> str:
        return ""


class GatedDevice(ToyDevice):
    """Runs a step only while `gate` is set; fails when `fail_next` says so."""

    resets = -1
    """How often it had to start over."""

    def __init__(
        self, *, rows: int, pages: int, page_size: int, slots: int, batches: tuple[int, ...]
    ) -> None:
        super().__init__(rows=rows, pages=pages, page_size=page_size, slots=slots, batches=batches)
        self.gate = threading.Event()
        self.gate.set()
        self.fail_next = False
        self.fail_writes_after: int | None = None

    def reset(self) -> None:
        super().reset()
        self.resets += 1

    def prefill(self, *arguments: object) -> ToyTokens:  # type: ignore[override]
        self._pass()
        return super().prefill(*arguments)  # type: ignore[arg-type]

    def decode(self, *arguments: object) -> ToyTokens:  # type: ignore[override]
        self._pass()
        return super().decode(*arguments)  # type: ignore[arg-type]

    def write_page(self, page: int, content: Sequence[object]) -> None:
        if self.fail_writes_after is not None:
            self.fail_writes_after -= 1
            if self.fail_writes_after < 0:
                raise RuntimeError("the device fell over")
        super().write_page(page, content)  # type: ignore[arg-type]

    def _pass(self) -> None:
        assert self.gate.wait(WAIT_S)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the device fell over")


@dataclass
class Turn:
    """One turn as its client sees it."""

    stream: EventStream
    sequence: Prompt

    def finish(self) -> tuple[list[int], Finished | Failed]:
        """Its tokens and how it ended."""
        text = ""
        while True:
            event: Event | None = self.stream.next_event(WAIT_S)
            assert event is not None, f"nothing within {WAIT_S} s after {text!r}"
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, Finished | Failed):
                return [int(number) for number in text.split()], event

    def first_tokens(self) -> None:
        """Wait until it has said something."""
        assert isinstance(self.stream.next_event(WAIT_S), TextDelta)


@dataclass
class ToyLoop:
    """A loop with what it is made of."""

    loop: StepLoop
    device: GatedDevice
    scheduler: Scheduler
    cache: PrefixCache
    table: SessionTable

    def start(
        self,
        prompt: Sequence[int],
        session: str | None = None,
        *,
        limit: int = 8,
        end: frozenset[int] = frozenset(),
        answer_ends: tuple[int, ...] = (),
        guesser: Guesser | None = None,
    ) -> Turn:
        sequence = Prompt(tuple(prompt), limit, self.loop.now(), answer_ends=answer_ends)
        stream = EventStream("toy", lambda: self.loop.cancel(sequence))
        answer = Answer(
            decoder=Numbers(),
            token_bytes=Numbers(),  # type: ignore[arg-type]
            stops=(),
            end_tokens=end,
            limit=limit,
        )
        drafting = None if guesser is None else Drafting(guesser, None)
        generation = Generation(sequence, GREEDY, answer, stream, lambda: 4096, drafting=drafting)
        self.loop.submit(generation, session)
        return Turn(stream, sequence)

    def ask(
        self, prompt: Sequence[int], session: str | None = None, *, limit: int = 8
    ) -> tuple[list[int], int]:
        """Run a turn to its end: its tokens, and how many of the prompt were cached."""
        tokens, end = self.start(prompt, session, limit=limit).finish()
        assert isinstance(end, Finished), end
        return tokens, end.usage.cached_tokens

    def measured(self) -> None:
        """Wait until the last step, whose end was told before, is over."""
        self.loop.perform(iter([None]))


@contextmanager
def toy_loop(
    *,
    rows: int = 2,
    pages: int = 64,
    page_size: int = 16,
    slots: int = 0,
    chunk: int = 128,
    queue_depth: int = 4,
    max_sessions: int = 4,
    checkpoint_every: int = 1024,
    queue_wait_s: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
    entries: int = 0,
) -> Iterator[ToyLoop]:
    """A running loop; at its end nothing may be held by anybody."""
    device = GatedDevice(
        rows=rows, pages=pages, page_size=page_size, slots=slots, batches=(entries or rows,)
    )
    cache = PrefixCache(
        PagePool(pages, page_size), ReferencePool(slots) if slots else None, checkpoint_every
    )
    scheduler = Scheduler(rows=rows, queue_depth=queue_depth, chunk=chunk, cache=cache)
    table = SessionTable(
        max_sessions=max_sessions, idle_ttl_s=3600, watch_grace_s=45, forget=cache.forget
    )
    loop = StepLoop(
        "toy",
        device,
        scheduler,
        table,
        queue_wait_s=queue_wait_s,
        speculation=Speculation.ALWAYS if entries else Speculation.NEVER,
        clock=clock,
    )
    try:
        yield ToyLoop(loop, device, scheduler, cache, table)
    finally:
        device.gate.set()
        loop.close()
        scheduler.check()
        assert scheduler.idle and not len(table)
        assert cache.pool.free == cache.pool.total
