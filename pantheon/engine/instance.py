"""One loaded model: its tokenizer, its step loop, and what it says about itself."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from pantheon.engine.answer import Answer
from pantheon.engine.completion import EventStream
from pantheon.engine.constraint import (
    Constraint,
    JsonGrammars,
    ReasoningBudget,
    UnsupportedSchema,
)
from pantheon.engine.errors import ContextOverBudget, InvalidRequest
from pantheon.engine.generation import Generation
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.scheduler import Sequence
from pantheon.engine.status import AttentionStatus, ModelStatus
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.tokenizer import (
    ChatTokenizer,
    PromptTokens,
    TemplateError,
    TokenizerError,
    TokenType,
)


@dataclass(frozen=True, slots=True)
class InstanceIdentity:
    """What an instance is called and what was asked for it, defaults resolved."""

    id: str
    path: str
    max_sessions: int
    max_concurrent_configured: int
    context_window_configured: int
    reasoning_budget: int


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
        *,
        stop_repetition: bool,
        thinking_default: bool,
    ) -> None:
        """Take over a compiled runner and the loop that runs it.

        Args:
            stop_repetition, thinking_default: see `EngineConfig`.
        """
        self._identity = identity
        self._chat = tokenizer
        self._tokenizer = tokenizer.tokenizer
        self._vocabulary = self._tokenizer.vocabulary
        self._control_ids = self._vocabulary.texts(TokenType.CONTROL)
        self._runner = runner
        self._loop = loop
        self._capacity = capacity
        self._attention_layers = attention_layers
        self._stop_repetition = stop_repetition
        self._thinking_default = thinking_default
        self._grammars = JsonGrammars(self._tokenizer)

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
        if len(prompt.ids) > window:
            raise ContextOverBudget(len(prompt.ids), window)
        limit = min(request.max_tokens, window - len(prompt.ids) + 1)
        sequence = Sequence(tuple(prompt.ids), limit, queued_at=self._loop.now())
        answer = self._answer(request, prompt, limit)
        generation = Generation(
            sequence,
            _row_sampling(request),
            answer,
            EventStream(self._identity.id, lambda: self._loop.cancel(sequence)),
            kv_cap=window,
            constraint=self._constraint(request, answer),
        )
        self._loop.submit(generation)
        return generation.stream

    def close(self) -> None:
        """End every generation. Idempotent."""
        self._loop.close()

    def _encode(self, request: CompletionRequest) -> PromptTokens:
        thinking = request.enable_thinking
        if thinking is None:
            thinking = self._thinking_default
        try:
            prompt = self._chat.encode_chat(
                request.messages, template_kwargs={"enable_thinking": thinking}
            )
        except (TemplateError, TokenizerError) as error:
            raise InvalidRequest(f"the conversation cannot be rendered: {error}") from error
        if not prompt.ids:
            raise InvalidRequest("the conversation must render to at least one token, got none")
        return prompt

    def _answer(self, request: CompletionRequest, prompt: PromptTokens, limit: int) -> Answer:
        texts, end_tokens = self._split_stops(request.stop)
        think = self._chat.think
        return Answer(
            decoder=self._tokenizer.decoder(),
            token_bytes=self._tokenizer.token_bytes,
            stops=texts,
            end_tokens=end_tokens,
            limit=limit,
            reasoning=None if think is None else ReasoningStart(think, prompt.reasoning_open),
            top_logprobs=request.top_logprobs,
            # A grammar can ask for what looks like a loop, such as a long array of zeros.
            stop_repetition=self._stop_repetition and request.response_format is None,
        )

    def _constraint(self, request: CompletionRequest, answer: Answer) -> Constraint | None:
        grammar = budget = None
        if request.response_format is not None:
            try:
                grammar = self._grammars.start(request.response_format.schema)
            except UnsupportedSchema as error:
                raise InvalidRequest(f"response_format: {error}") from error
        tokens = request.reasoning_budget
        if tokens is None:
            tokens = self._identity.reasoning_budget
        if self._chat.think is not None and tokens > 0:
            budget = ReasoningBudget(self._chat.think, self._tokenizer, tokens)
        return Constraint.of(answer, grammar=grammar, budget=budget)

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
