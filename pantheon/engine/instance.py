"""One loaded model: its tokenizer, its step loop, and what it says about itself."""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Listed
from dataclasses import dataclass

from pantheon.engine.answering import Answering, AnswerOptions
from pantheon.engine.cache import Continued, continue_history
from pantheon.engine.completion import EventStream
from pantheon.engine.constraint import Constraint
from pantheon.engine.dies import Binding
from pantheon.engine.drafting import DraftCount, Drafting
from pantheon.engine.errors import (
    ContextOverBudget,
    EngineError,
    ServerMemoryConstrained,
    ServerShuttingDown,
    SessionCachingDisabled,
)
from pantheon.engine.generation import Generation
from pantheon.engine.memory import Clamp, MemoryPressure
from pantheon.engine.model_text import ModelText
from pantheon.engine.prompt_lookup import PromptLookup
from pantheon.engine.prompts import PromptWriter
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.scheduler import Sequence
from pantheon.engine.session_transfer import SessionTransfer
from pantheon.engine.shared import Shared
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import UNMEASURED_PREFILL_RATE, ModelStatus
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.tools import Dialect
from pantheon.engine.watches import SessionWatch, WatchTable


@dataclass(frozen=True, slots=True)
class InstanceIdentity:
    """What an instance is called, what was asked for it, defaults resolved, and what it is.

    Attributes:
        architecture: `general.architecture` of its file.
        weights_version: tells its weights apart; see `pantheon.engine.gguf.weights_version`.
    """

    id: str
    path: str
    max_sessions: int
    max_concurrent_configured: int
    context_window_configured: int
    architecture: str
    weights_version: int


class ModelInstance:
    """One loaded model. Its methods may be called from any thread."""

    def __init__(
        self,
        identity: InstanceIdentity,
        text: ModelText,
        dialect: Dialect,
        runner: Runner,
        loop: StepLoop,
        capacity: Capacity,
        transfer: SessionTransfer | None,
        shared: Shared,
        *,
        answers: AnswerOptions,
        thinking_default: bool,
        speculates: bool,
        binding: Binding | None = None,
    ) -> None:
        """Take over a compiled runner and the loop that runs it.

        Args:
            transfer: export and restore; None for a model whose sessions keep no cache.
            answers: what answers are held to.
            thinking_default: see `EngineConfig`.
            speculates: whether answers are decoded with drafts; see `Drafting`.
            binding: its dies, which `close` gives back; None on the host.
        """
        self._binding = binding
        self._speculates = speculates
        self._identity = identity
        self._speller = text.speller
        self._runner = runner
        self._loop = loop
        self._capacity = capacity
        self._transfer = transfer
        self._pressure: MemoryPressure = shared.pressure
        self._watches: WatchTable = shared.watches
        self._prompts = PromptWriter(text.tokenizer, dialect, thinking_default=thinking_default)
        self._answering = Answering(
            text.tokenizer, text.compiler, dialect, self._prompts.turns, answers
        )

    @property
    def id(self) -> str:
        """The served name."""
        return self._identity.id

    @property
    def dies(self) -> tuple[int, ...]:
        """See `ServedModel.dies`."""
        return () if self._binding is None else self._binding.ordinals

    @property
    def weights_version(self) -> int:
        """See `ServedModel.weights_version`."""
        return self._identity.weights_version

    @property
    def serves(self) -> bool:
        """See `ServedModel.serves`."""
        return not self._loop.stopped

    @property
    def load(self) -> int:
        """See `ServedModel.load`."""
        return self._loop.load

    @property
    def rows(self) -> int:
        """See `ServedModel.rows`."""
        return self._served().rows if self.serves else 0

    @property
    def free_sessions(self) -> int:
        """See `ServedModel.free_sessions`."""
        return self._loop.sessions.free

    def holds_session(self, session_id: str) -> bool:
        """See `ServedModel.holds_session`."""
        return self._loop.sessions.find(session_id) is not None

    @property
    def idle(self) -> bool:
        """True when no generation runs or waits."""
        return self._loop.idle

    @property
    def prefill_tokens_per_s(self) -> float:
        """The measured rate, or the reference's before one was measured."""
        return self._loop.times.prefill_tokens_per_s or UNMEASURED_PREFILL_RATE

    @property
    def largest_blob_bytes(self) -> int:
        """Bytes of the largest blob that fits; 0 without a session cache."""
        return 0 if self._transfer is None else self._transfer.largest_blob_bytes

    @property
    def drafts(self) -> DraftCount:
        """How many drafts were right in answers that ended."""
        return self._loop.drafts

    def status(self) -> ModelStatus:
        """See `ModelStatus`."""
        serves = self.serves
        return ModelStatus(
            id=self._identity.id,
            path=self._identity.path,
            dies=self.dies,
            vram_bytes=self._runner.held_bytes,
            max_sessions=self._identity.max_sessions if serves else 0,
            max_concurrent=self.rows,
            max_concurrent_configured=self._identity.max_concurrent_configured,
            context_window=self._served().window,
            context_window_configured=self._identity.context_window_configured,
            tool_choice_required_with_thinking=self._answering.models_calls,
            attention=self._runner.attention.status() if self._loop.stepped else None,
            graphs=None if self._runner.graphs is None else self._runner.graphs.status(),
            serves=serves,
        )

    def submit(self, request: CompletionRequest) -> EventStream:
        """Render, tokenise and queue a request. See `Engine.submit` for what it raises."""
        served = self._served()
        if not served.admits:
            raise ServerMemoryConstrained(
                "the server is short of memory and admits nothing new; retry later"
            )
        rendered = self._prompts.encode(request)
        session_id = None if self._transfer is None else request.session_id
        prompt = self._continue(rendered.ids, session_id)
        size = len(prompt.tokens)
        if size > served.window:
            raise ContextOverBudget(size, served.window)
        limit = min(request.max_tokens, served.window - size + 1)
        sequence = Sequence(prompt.tokens, limit, self._loop.now(), answer_ends=prompt.answer_ends)
        thinks = self._prompts.thinks(request)
        answer, constraint = self._answering.begin(request, rendered, limit, thinks=thinks)
        generation = Generation(
            sequence,
            _row_sampling(request),
            answer,
            EventStream(self._identity.id, lambda: self._loop.cancel(sequence)),
            kv_cap=lambda: self._served().window,
            constraint=constraint,
            drafting=self._drafting(prompt.tokens, constraint),
        )
        self._loop.submit(generation, session_id)
        return generation.stream

    def export_session(self, session_id: str) -> SessionSnapshot:
        """See `Engine.export_session`."""
        return self._sessions().export(session_id)

    def restore_session(self, session_id: str, blob: bytes, tokens: Listed[int]) -> int:
        """See `Engine.restore_session`."""
        sessions, served = self._sessions(), self._served()
        if not served.admits or len(tokens) > served.window < self._capacity.window:
            raise ServerMemoryConstrained(
                f"the server is short of memory and restores no session of {len(tokens)} tokens; "
                "retry later"
            )
        return sessions.restore(session_id, blob, tokens)

    def release_session(self, session_id: str) -> None:
        """See `Engine.release_session`."""
        self._loop.sessions.release(session_id)

    def watch_session(self, session_id: str) -> SessionWatch:
        """See `Engine.watch_session`."""
        self._sessions()
        sessions = self._loop.sessions
        return self._watches.open(
            self,
            session_id,
            began=lambda: sessions.watch(session_id),
            ended=lambda: sessions.unwatch(session_id),
        )

    def drain(self, refusal: EngineError) -> None:
        """See `ServedModel.drain`; ends every watch too."""
        self._loop.drain(refusal)
        self._watches.end_all(self)

    def close(self) -> None:
        """End every generation and session and free the device. Idempotent."""
        self.drain(ServerShuttingDown(f"{self.id} is no longer served"))
        if not self._loop.close(self._runner.step_limit_s):
            self._runner.give_up()
        # At once, and not when the last stream of a client that stands still lets go of it.
        self._runner.close()
        if self._binding is not None:
            self._binding.release()

    def _served(self) -> Clamp:
        """Window and rows as memory allows them right now."""
        capacity = self._capacity
        return self._pressure.clamp(self.dies, capacity.window, capacity.rows, capacity.page_size)

    def _sessions(self) -> SessionTransfer:
        if self._transfer is None:
            raise SessionCachingDisabled(
                f"the sessions of {self._identity.id} keep no cache (PANTHEON_SESSION_CACHE=0)"
            )
        return self._transfer

    def _continue(self, prompt: Listed[int], session_id: str | None) -> Continued:
        """The prompt with the sampled tokens of the session's answers where they stand again."""
        kept = () if session_id is None else self._loop.sessions.conversations(session_id)
        return continue_history(prompt, kept, self._speller)

    def _drafting(self, prompt: tuple[int, ...], constraint: Constraint | None) -> Drafting | None:
        return Drafting(PromptLookup(prompt), constraint) if self._speculates else None


def _row_sampling(request: CompletionRequest) -> RowSampling:
    sampling = request.sampling
    return RowSampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=secrets.randbits(64) if sampling.seed is None else sampling.seed,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=sampling.logit_bias,
        top_logprobs=request.top_logprobs,
    )
