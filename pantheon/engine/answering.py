"""How the answer to a request is taken apart, and what it is held to."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.answer import Answer
from pantheon.engine.answer_calls import AnswerCalls
from pantheon.engine.config import ToolGrammar
from pantheon.engine.constraint import (
    Constraint,
    GrammarCompiler,
    JsonGrammars,
    ReasoningBudget,
    ToolGrammars,
    UnsupportedSchema,
)
from pantheon.engine.errors import InvalidRequest
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.requests import CompletionRequest, ToolUse
from pantheon.engine.tokenizer import ChatTokenizer, PromptTokens, TokenType
from pantheon.engine.tools import Dialect, WrittenTurns


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What a model's answers are held to, whatever the request.

    Attributes:
        reasoning_budget: see `ModelOptions`.
        stop_repetition, tool_grammar: see `EngineConfig`.
    """

    reasoning_budget: int
    stop_repetition: bool
    tool_grammar: ToolGrammar


class Answering:
    """Begins the answers of one model. Safe to use from several threads."""

    def __init__(
        self,
        chat: ChatTokenizer,
        compiler: GrammarCompiler,
        dialect: Dialect,
        turns: WrittenTurns,
        options: AnswerOptions,
    ) -> None:
        """Of a model that speaks a dialect.

        Args:
            compiler: of grammars over its vocabulary.
            turns: told of answers with calls.
        """
        self._chat = chat
        self._tokenizer = chat.tokenizer
        self._control_ids = self._tokenizer.vocabulary.texts(TokenType.CONTROL)
        self._dialect = dialect
        self._turns = turns
        self._options = options
        self._formats = JsonGrammars(compiler)
        self._calls = ToolGrammars(compiler, dialect)

    @property
    def models_calls(self) -> bool:
        """Whether a call that is required is compelled by a grammar, thinking or not."""
        return (
            self._calls.models_the_dialect and self._options.tool_grammar is not ToolGrammar.NEVER
        )

    def begin(
        self, request: CompletionRequest, prompt: PromptTokens, limit: int, *, thinks: bool
    ) -> tuple[Answer, Constraint | None]:
        """An answer before its first token, and what decides which tokens it may take.

        Args:
            limit: most tokens of it.
            thinks: whether a compelled call may come after a think block that the model opens.

        Raises:
            InvalidRequest: the response format, the tools or the choice among them cannot be
                held to.
        """
        stops, end_tokens = self._split_stops(request.stop)
        think, use = self._chat.think, request.tool_use
        calls = None
        if use is not None:
            calls = AnswerCalls(
                self._dialect.parser(use.tools),
                compelled=self._compels(use),
                remember=self._turns.remember,
            )
        # A grammar can ask for what looks like a loop, such as a long array of zeros.
        is_held = request.response_format is not None or (calls is not None and calls.compelled)
        answer = Answer(
            decoder=self._tokenizer.decoder(),
            token_bytes=self._tokenizer.token_bytes,
            stops=stops,
            end_tokens=end_tokens,
            limit=limit,
            reasoning=None if think is None else ReasoningStart(think, prompt.reasoning_open),
            top_logprobs=request.top_logprobs,
            stop_repetition=self._options.stop_repetition and not is_held,
            calls=calls,
        )
        return answer, self._constraint(request, answer, end_tokens, thinks)

    def _constraint(
        self,
        request: CompletionRequest,
        answer: Answer,
        end_tokens: frozenset[int],
        thinks: bool,
    ) -> Constraint | None:
        grammar = calls = budget = None
        try:
            if request.tool_use is not None:
                calls = self._calls.start(
                    request.tool_use,
                    answer,
                    mode=self._options.tool_grammar,
                    end_tokens=end_tokens,
                    think=self._chat.think if thinks else None,
                )
            elif request.response_format is not None:
                grammar = self._formats.start(request.response_format.schema)
        except UnsupportedSchema as error:
            what = "response_format" if request.tool_use is None else "tools"
            raise InvalidRequest(f"{what}: {error}") from error
        tokens = request.reasoning_budget
        if tokens is None:
            tokens = self._options.reasoning_budget
        if self._chat.think is not None and tokens > 0:
            budget = ReasoningBudget(self._chat.think, self._tokenizer, tokens)
        return Constraint.of(answer, grammar=grammar, calls=calls, budget=budget)

    def _compels(self, use: ToolUse) -> bool:
        """Whether the answer must be a call (reference, the table of PANTHEON_TOOL_GRAMMAR)."""
        mode = self._options.tool_grammar
        if use.name is not None and mode is ToolGrammar.ALWAYS:
            if all(tool.name != use.name for tool in use.tools):
                raise InvalidRequest(
                    f"tool_choice must name an offered tool, got {use.name!r:.100}"
                )
            return True
        return use.required and mode is not ToolGrammar.NEVER

    def _split_stops(self, stops: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[int]]:
        """Stop texts, and the tokens that end an answer.

        A stop that spells a control token is matched by its id: its text is never in the answer.
        """
        texts = tuple(stop for stop in stops if stop not in self._control_ids)
        stop_tokens = {self._control_ids[stop] for stop in stops if stop in self._control_ids}
        return texts, self._tokenizer.vocabulary.end_ids | stop_tokens
