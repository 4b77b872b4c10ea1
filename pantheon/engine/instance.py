"""One loaded model: its tokenizer, its step loop, and what it says about itself."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from pantheon.engine.answer import Answer
from pantheon.engine.completion import EventStream
from pantheon.engine.errors import ContextOverBudget, InvalidRequest
from pantheon.engine.generation import Generation
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.scheduler import Sequence
from pantheon.engine.status import AttentionStatus, ModelStatus
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.tokenizer import ChatTokenizer, TemplateError, TokenizerError, TokenType


@dataclass(frozen=True, slots=True)
class InstanceIdentity:
    """What an instance is called and what was asked for it, defaults resolved."""

    id: str
    path: str
    max_sessions: int
    max_concurrent_configured: int
    context_window_configured: int


class ModelInstance:
    """One loaded model. Its methods may be called from any thread."""

    def __init__(
        self,
        identity: InstanceIdentity,
        tokenizer: ChatTokenizer,
        runner: Runner,
        loop: StepLoop,
        capacity: Capacity,
        attention_layers: int,
    ) -> None:
        """Take over a compiled runner and the loop that runs it."""
        self._identity = identity
        self._chat = tokenizer
        self._tokenizer = tokenizer.tokenizer
        self._vocabulary = self._tokenizer.vocabulary
        self._control_ids = self._vocabulary.texts(TokenType.CONTROL)
        self._runner = runner
        self._loop = loop
        self._capacity = capacity
        self._attention_layers = attention_layers

    @property
    def id(self) -> str:
        """The served name."""
        return self._identity.id

    def status(self) -> ModelStatus:
        """See `ModelStatus`."""
        return ModelStatus(
            id=self._identity.id,
            path=self._identity.path,
            dies=(),
            vram_bytes=self._runner.held_bytes,
            max_sessions=self._identity.max_sessions,
            max_concurrent=self._capacity.rows,
            max_concurrent_configured=self._identity.max_concurrent_configured,
            context_window=self._capacity.window,
            context_window_configured=self._identity.context_window_configured,
            tool_choice_required_with_thinking=False,
            attention=self._attention() if self._loop.stepped else None,
        )

    def submit(self, request: CompletionRequest) -> EventStream:
        """Render, tokenise and queue a request. See `Engine.submit` for what it raises."""
        prompt = self._encode(request)
        window = self._capacity.window
        if len(prompt) > window:
            raise ContextOverBudget(len(prompt), window)
        limit = min(request.max_tokens, window - len(prompt) + 1)
        sequence = Sequence(prompt, limit, queued_at=self._loop.now())
        sampling = request.sampling
        seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
        texts, end_tokens = self._split_stops(request.stop)
        generation = Generation(
            sequence,
            RowSampling(sampling.temperature, sampling.top_p, sampling.top_k, seed),
            Answer(self._tokenizer.decoder(), texts, end_tokens, limit),
            EventStream(self._identity.id, lambda: self._loop.cancel(sequence)),
            kv_cap=window,
        )
        self._loop.submit(generation)
        return generation.stream

    def close(self) -> None:
        """End every generation. Idempotent."""
        self._loop.close()

    def _encode(self, request: CompletionRequest) -> tuple[int, ...]:
        try:
            prompt = tuple(self._chat.encode_chat(request.messages).ids)
        except (TemplateError, TokenizerError) as error:
            raise InvalidRequest(f"the conversation cannot be rendered: {error}") from error
        if not prompt:
            raise InvalidRequest("the conversation must render to at least one token, got none")
        return prompt

    def _split_stops(self, stops: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[int]]:
        """Stop texts, and the tokens that end an answer.

        A stop that spells a control token is matched by its id: its text is never in the answer.
        """
        texts = tuple(stop for stop in stops if stop not in self._control_ids)
        stop_tokens = {self._control_ids[stop] for stop in stops if stop in self._control_ids}
        return texts, self._vocabulary.end_ids | stop_tokens

    def _attention(self) -> AttentionStatus:
        """Every layer runs in plain XLA: a build without flash kernels for its platform."""
        layers = self._attention_layers
        return AttentionStatus(
            ondie=0,
            host=layers,
            total=layers,
            host_engagements=layers,
            reasons={"no_flash_kernels": layers},
        )
