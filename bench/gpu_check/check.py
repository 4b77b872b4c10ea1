"""One comparison with its tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, slots=True)
class Check:
    """A number that must not be above its tolerance.

    Attributes:
        error: what was found; NaN where there were no numbers.
    """

    name: str
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether it is within the tolerance."""
        return self.error <= self.tolerance

    def record(self) -> dict[str, Any]:
        """As JSON, in which there is no NaN."""
        error = None if np.isnan(self.error) else self.error
        return {
            "name": self.name,
            "error": error,
            "tolerance": self.tolerance,
            "passed": self.passed,
        }


def largest_error(found: Float[np.ndarray, ...], expected: Float[np.ndarray, ...]) -> float:
    """The largest difference, as a share of the largest expected magnitude.

    Where no number is expected, as of padding, anything will do.
    """
    known = np.isfinite(expected)
    scale = float(np.max(np.abs(expected[known]), initial=0.0)) or 1.0
    return float(np.max(np.abs(found[known] - expected[known]), initial=0.0)) / scale
