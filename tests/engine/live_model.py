"""A real tiny model behind its step loop, asked by token ids."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pantheon.engine.answer import Answer
from pantheon.engine.cache import PagePool, PrefixCache, ReferencePool, SessionTable
from pantheon.engine.completion import EventStream
from pantheon.engine.config import Speculation
from pantheon.engine.drafting import Drafting, Guesser
from pantheon.engine.events import Event, Failed, Finished
from pantheon.engine.generation import Generation
from pantheon.engine.model import Architecture, ModelConfig, Parameters
from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import PREFILL_CHUNK, Capacity, Graphs, Runner
from pantheon.engine.scheduler import Scheduler
from pantheon.engine.scheduler import Sequence as Prompt
from pantheon.engine.session_blob import BlobTarget
from pantheon.engine.session_transfer import SessionTransfer
from pantheon.engine.step_loop import StepLoop
from tests.engine.model.forward import open_model

WAIT_S = 60.0
PAGE = 64
_GREEDY = RowSampling(0.0, 1.0, 0, 0, top_logprobs=2)


class _TokenBytes:
    def get(self, token: int, *, special: bool = False) -> bytes:
        return b"x"


class _Decoder:
    between_characters = True
    latest = b"x"

    def push(self, token_id: int) -> str:
        return "x"

    def flush(self) -> str:
        return ""


@dataclass
class Turn:
    """One request on its way and what became of it."""

    generation: Generation
    events: list[Event] = field(default_factory=list)

    def wait(self) -> "Turn":
        """Wait for its end."""
        assert self.generation.stream.wait_admitted(WAIT_S)
        while not self.events or not isinstance(self.events[-1], (Finished, Failed)):
            event = self.generation.stream.next_event(WAIT_S)
            assert event is not None, "no event came"
            self.events.append(event)
        return self

    @property
    def finished(self) -> Finished:
        end = self.wait().events[-1]
        assert isinstance(end, Finished), end
        return end

    @property
    def tokens(self) -> list[int]:
        """What was sampled."""
        assert self.finished
        return list(self.generation.sampled)

    @property
    def cached(self) -> int:
        """Prompt tokens that were not computed."""
        return self.finished.usage.cached_tokens

    @property
    def margins(self) -> list[float]:
        """For each token the distance between the two best log-probabilities at its place."""
        found = []
        for event in self.wait().events:
            for entry in getattr(event, "logprobs", ()):
                first, second = (one.logprob for one in entry.alternatives)
                found.append(first - second)
        return found


@dataclass
class LiveModel:
    """Everything of one model but its tokenizer."""

    loop: StepLoop
    scheduler: Scheduler
    runner: Runner
    transfer: SessionTransfer

    def start(
        self,
        prompt: Sequence[int],
        session: str | None = None,
        limit: int = 16,
        sampling: RowSampling = _GREEDY,
        guesser: Guesser | None = None,
    ) -> Turn:
        """Submit a prompt.

        Args:
            guesser: drafts the answer; it has taken the prompt.
        """
        sequence = Prompt(tuple(prompt), limit, queued_at=self.loop.now())
        answer = Answer(
            decoder=_Decoder(),
            token_bytes=_TokenBytes(),
            stops=(),
            end_tokens=frozenset(),
            limit=limit,
            top_logprobs=sampling.top_logprobs,
        )
        stream = EventStream("tiny", lambda: self.loop.cancel(sequence))
        drafting = None if guesser is None else Drafting(guesser, None)
        generation = Generation(sequence, sampling, answer, stream, lambda: 0, drafting=drafting)
        self.loop.submit(generation, session)
        return Turn(generation)

    def ask(self, prompt: Sequence[int], session: str | None = None, limit: int = 16) -> Turn:
        """Submit a prompt and wait for its answer."""
        return self.start(prompt, session, limit).wait()

    def check(self) -> None:
        """Every invariant of scheduler and cache."""
        with self.loop.lock:
            self.scheduler.check()


@contextmanager
def live_model(
    model: Path | tuple[Architecture, ModelConfig, Parameters],
    *,
    rows: int = 8,
    pages: int = 64,
    window: int = 1024,
    checkpoints: int = 0,
    precision: Precision = Precision.FLOAT32,
    graphs: Graphs | None = None,
) -> Iterator[LiveModel]:
    """Load, compile and run a model.

    Args:
        precision: of a model that is loaded here.
        graphs: how its decode steps are captured.
    """
    opened = open_model(model, precision=precision) if isinstance(model, Path) else model
    architecture, config, parameters = opened
    capacity = Capacity(rows, pages, PAGE, window, checkpoints)
    # One is enough, and compiled in a third of the time: a row is the same in all of them.
    runner = Runner(architecture, config, parameters, capacity, batches=(8,), graphs=graphs)
    runner.compile(lambda message: None)
    slots = ReferencePool(checkpoints) if checkpoints else None
    cache = PrefixCache(PagePool(pages, PAGE), slots)
    scheduler = Scheduler(
        rows=rows,
        queue_depth=32,
        chunk=PREFILL_CHUNK,
        cache=cache,
    )
    table = SessionTable(max_sessions=8, idle_ttl_s=1e6, watch_grace_s=1e6, forget=cache.forget)
    target = BlobTarget(
        architecture.name,
        1,
        runner.empty_page(),
        PAGE,
        window,
        config.tokens,
        runner.empty_recurrent_state(),
    )
    traces = runner.traces
    speculation = Speculation.NEVER if checkpoints else Speculation.ALWAYS
    loop = StepLoop("tiny", runner, scheduler, table, queue_wait_s=WAIT_S, speculation=speculation)
    try:
        transfer = SessionTransfer(loop, cache, runner, target, snapshots=architecture.snapshots)
        yield LiveModel(loop, scheduler, runner, transfer)
        assert runner.traces == traces, "a step was traced after compile"
    finally:
        loop.close()
