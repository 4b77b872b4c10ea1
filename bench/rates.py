"""Tokens per second out of timed answers."""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import BenchError
from bench.streaming import Answer


class AnswerTooShort(BenchError):
    """The rows did not decode side by side for long enough; another prompt may do."""


def prefill_rate(answer: Answer) -> float:
    """Prompt tokens by the time to the first token, which includes its sampling and its way."""
    return answer.prompt_tokens / answer.first_token_seconds


def decode_rate(answers: Sequence[Answer], least_tokens: int) -> float:
    """Tokens per second in all, over the stretch in which every row decodes.

    The stretch goes from the last row's first text to the first row's last text. Each row counts
    by the intervals between its own chunks there, so that no step is cut by the stretch's edges;
    a chunk stands for as many tokens as its answer has per chunk.

    Args:
        least_tokens: tokens that each row must decode in the stretch.

    Raises:
        AnswerTooShort: a row has fewer.
    """
    if not all(answer.chunks for answer in answers):
        raise AnswerTooShort("an answer has no text")
    start = max(answer.chunks[0] for answer in answers)
    end = min(answer.chunks[-1] for answer in answers)
    total = 0.0
    for answer in answers:
        inside = [at for at in answer.chunks if start <= at <= end]
        tokens = (len(inside) - 1) * answer.completion_tokens / len(answer.chunks)
        if tokens < least_tokens or inside[-1] <= inside[0]:
            raise AnswerTooShort(
                f"expected {least_tokens} tokens of each row side by side, got {tokens:.0f}"
            )
        total += tokens / (inside[-1] - inside[0])
    return total


def same_work(ours: Sequence[Answer], theirs: Sequence[Answer]) -> None:
    """Check that both servers computed the same prompts in full.

    Raises:
        BenchError: prompt tokens differ, or some came out of a cache.
    """
    for one, other in zip(ours, theirs, strict=True):
        if one.prompt_tokens != other.prompt_tokens:
            raise BenchError(
                f"the servers count a prompt as {one.prompt_tokens} and {other.prompt_tokens} "
                "tokens: they do not do the same work"
            )
    for answer in (*ours, *theirs):
        computed = answer.computed_tokens
        if answer.cached_tokens or computed not in (None, answer.prompt_tokens):
            raise BenchError(
                f"expected all {answer.prompt_tokens} prompt tokens computed, got "
                f"{answer.cached_tokens} from a cache and {computed} computed"
            )
