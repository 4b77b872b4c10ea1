"""Answers with tools under their constraint, as a generation drives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pantheon.engine.answer import Answer
from pantheon.engine.answer_calls import AnswerCalls
from pantheon.engine.config import ToolGrammar
from pantheon.engine.constraint import Constraint, ToolGrammars
from pantheon.engine.events import ReasoningDelta, TextDelta
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.requests import ToolUse
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import Tokenizer
from pantheon.engine.tools import Dialect, Tool


class Called:
    """One answer."""

    def __init__(
        self,
        grammars: ToolGrammars,
        tokenizer: Tokenizer,
        dialect: Dialect,
        tools: Sequence[Tool],
        *,
        compelled: bool = True,
        name: str | None = None,
        mode: ToolGrammar = ToolGrammar.ALWAYS,
        reasoning: ReasoningStart | None = None,
        limit: int = 100_000,
        end_tokens: frozenset[int] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.ends = tokenizer.vocabulary.end_ids if end_tokens is None else end_tokens
        self.calls = AnswerCalls(dialect.parser(tools), compelled=compelled)
        self.answer = Answer(
            decoder=tokenizer.decoder(),
            token_bytes=tokenizer.token_bytes,
            stops=(),
            end_tokens=self.ends,
            limit=limit,
            reasoning=reasoning,
            calls=self.calls,
        )
        rule = grammars.start(
            ToolUse(tuple(tools), required=compelled, name=name),
            self.answer,
            mode=mode,
            end_tokens=self.ends,
            think=None if reasoning is None else reasoning.style,
        )
        self.constraint = Constraint.of(self.answer, calls=rule)
        self.written = self.content = self.reasoning = ""
        self.reason: str | None = None

    def allowed(self) -> set[int] | None:
        """Tokens that may come next; None for all."""
        mask = None if self.constraint is None else self.constraint.mask()
        if mask is None:
            return None
        assert mask.shape == (-(-len(self.tokenizer.vocabulary) // 32),)
        return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())

    def allows(self, token: int) -> bool:
        allowed = self.allowed()
        return allowed is None or token in allowed

    def may_end(self) -> bool:
        """Whether the end tokens are allowed, which all are or none."""
        found = {self.allows(token) for token in self.ends}
        assert len(found) == 1
        return found.pop()

    def take(self, token: int) -> None:
        """Take a token, allowed or not."""
        step = self.answer.push(SampledToken(token))
        deltas, self.reason = step.deltas, step.finish_reason
        if self.constraint is not None:
            self.constraint.accept(token)
            if self.reason is None and (self.constraint.complete or self.constraint.dead):
                end = self.answer.end("stop")
                deltas, self.reason = (*deltas, *end.deltas), end.finish_reason
        self.written += self.answer.latest_content
        for delta in deltas:
            if isinstance(delta, ReasoningDelta):
                self.reasoning += delta.text
            elif isinstance(delta, TextDelta):
                self.content += delta.text

    def take_text(self, text: str) -> None:
        """Take a text, in the vocabulary's tokens, each of which must be allowed."""
        for token in self.tokenizer.encode(text, special=False, continued=True):
            assert self.reason is None, f"ended with {self.reason} before {text!r}"
            assert self.allows(token), (self.written, self.tokenizer.token_bytes.get(token))
            self.take(token)

    @property
    def complete(self) -> bool:
        return self.constraint is not None and self.constraint.complete

    @property
    def call(self) -> tuple[str, Any]:
        """Name and arguments of the one call, which is all that came."""
        assert self.calls.error is None, self.calls.error
        (call,) = self.calls.calls
        assert self.content == ""
        return call.name, json.loads(call.arguments)
