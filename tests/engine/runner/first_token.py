"""A prompt computed as the step loop does it, up to the first token of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import PREFILL_CHUNK, Runner
from pantheon.engine.runner.sampled import Sampled
from pantheon.engine.token_mask import TokenMask


def first_token(
    runner: Runner,
    prompt: Sequence[int],
    pages: Sequence[int],
    row: int,
    sampling: RowSampling,
    mask: TokenMask | None = None,
    *,
    chunks: Sequence[int] = (),
) -> Sampled:
    """Prefill all but the last token, which a decode step is fed.

    Args:
        chunks: sizes of those of prefill, of which the last may be too large; none for whole ones.
    """
    runner.start_row(row, sampling)
    start, last = 0, len(prompt) - 1
    for size in chunks or [PREFILL_CHUNK] * (last // PREFILL_CHUNK + 1):
        end = min(start + size, last)
        if start < end:
            runner.prefill(prompt[start:end], start, pages, row)
        start = end
    return runner.decode([row], [last], [pages], [sampling], [mask], [prompt[-1]])
