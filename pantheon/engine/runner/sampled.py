"""What a dispatched step gives the host when it is done."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Int

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.steps import Chosen
from pantheon.engine.sampled_token import SampledToken


class Sampled:
    """Tokens that a dispatched step will have sampled, in the order of its rows."""

    def __init__(self, chosen: Chosen, rows: Sequence[RowSampling]) -> None:
        """Hold the step's output; entries past those of `rows` are padding."""
        self._chosen = chosen
        self._rows = tuple(rows)

    def read(self) -> list[SampledToken]:
        """Wait for the step and return its tokens."""
        tokens = np.asarray(self._chosen.tokens).tolist()
        finite = np.asarray(self._chosen.finite).tolist()
        if all(row.top_logprobs is None for row in self._rows):
            count = len(self._rows)
            return [
                SampledToken(token, finite=is_finite)
                for token, is_finite in zip(tokens[:count], finite[:count], strict=True)
            ]
        chosen, top, top_tokens = (np.asarray(part) for part in self._chosen.logprobs)
        return [
            SampledToken(tokens[index], finite=finite[index])
            if row.top_logprobs is None
            else SampledToken(
                tokens[index],
                float(chosen[index]),
                tuple(
                    zip(
                        top_tokens[index, : row.top_logprobs].tolist(),
                        top[index, : row.top_logprobs].tolist(),
                        strict=True,
                    )
                ),
                finite[index],
            )
            for index, row in enumerate(self._rows)
        ]


class Prefilled:
    """A chunk of prefill on its way, which samples nothing."""

    def __init__(self, done: Int[Array, ""]) -> None:
        """Hold a number that is there when the step is done."""
        self._done = done

    def read(self) -> list[SampledToken]:
        """Wait for the step."""
        self._done.block_until_ready()
        return []
