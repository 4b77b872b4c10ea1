"""Answers of made-up tokens, for the tests of what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

from pantheon.engine.answer import Answer, AnswerStep
from pantheon.engine.events import FinishReason, ReasoningDelta, TextDelta
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import ThinkStyle, Tokenizer
from tests.engine.tokenizer.vocabularies import byte_vocabulary

BYTES = Tokenizer(byte_vocabulary(control=["<end>", "<s>"], user_defined=["<think>", "</think>"]))
END_TOKEN, CONTROL, OPEN, CLOSE = 256, 257, 258, 259
BY_TOKEN = ThinkStyle(OPEN, CLOSE)
BY_TEXT = ThinkStyle(None, None)
IDS = {BYTES.token_bytes.get(token): token for token in range(256)}


def ids_of(data: bytes) -> list[int]:
    """One token a byte."""
    return [IDS[bytes([byte])] for byte in data]


def answer_of(
    tokenizer: Tokenizer = BYTES,
    stops: tuple[str, ...] = (),
    limit: int = 1000,
    reasoning: ReasoningStart | None = None,
    end_tokens: frozenset[int] = frozenset({END_TOKEN}),
    stop_repetition: bool = False,
    top_logprobs: int | None = None,
) -> Answer:
    return Answer(
        decoder=tokenizer.decoder(),
        token_bytes=tokenizer.token_bytes,
        stops=stops,
        end_tokens=end_tokens,
        limit=limit,
        reasoning=reasoning,
        stop_repetition=stop_repetition,
        top_logprobs=top_logprobs,
    )


def run(answer: Answer, tokens: Sequence[int]) -> list[AnswerStep]:
    """Push tokens until one is the last; the n-th has the log-probability -n."""
    steps = []
    for token in tokens:
        steps.append(answer.push(SampledToken(token, -float(len(steps)))))
        if steps[-1].finish_reason is not None:
            break
    return steps


def joined(steps: Sequence[AnswerStep]) -> tuple[str, str, FinishReason | None]:
    """Reasoning, content and finish reason; checks the order and that no delta is empty."""
    deltas = [delta for step in steps for delta in step.deltas]
    kinds = [type(delta) for delta in deltas]
    assert kinds == sorted(kinds, key=lambda kind: kind is TextDelta), "reasoning comes first"
    assert all(delta.text for delta in deltas), "no delta is empty"
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    return reasoning, text, steps[-1].finish_reason if steps else None


def text_step(text: str, reason: FinishReason | None = None) -> AnswerStep:
    return AnswerStep((TextDelta(text),) if text else (), reason)
