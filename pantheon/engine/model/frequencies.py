"""Rotary frequencies, scaled as a file asks for. Computed once, when a model is loaded."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from pantheon.engine.model.config import LinearScaling, RopeConfig, YarnScaling


def frequencies(rope: RopeConfig) -> Float[np.ndarray, " pairs"]:
    """`base ** (-2 i / dim)` for each pair i (Su et al., 2021), scaled; float32."""
    exponents = np.arange(0, rope.dim, 2, dtype=np.float64) / rope.dim
    plain = rope.base**-exponents
    match rope.scaling:
        case None:
            scaled = plain
        case LinearScaling(factor):
            scaled = plain / factor
        case YarnScaling():
            kept = _kept(rope, rope.scaling)
            scaled = plain * kept + plain / rope.scaling.factor * (1 - kept)
    return scaled.astype(np.float32)


def _kept(rope: RopeConfig, scaling: YarnScaling) -> Float[np.ndarray, " pairs"]:
    """For each pair how far it is kept: 1 for the fast ones, 0 for the slow, a ramp between."""

    def pair_of(turns: float) -> float:
        """The pair that turns so often within the original context, as a fraction."""
        ratio = scaling.original_length / (turns * 2 * math.pi)
        return rope.dim * math.log(ratio) / (2 * math.log(rope.base))

    last = rope.dim - 1
    low = max(math.floor(pair_of(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_of(scaling.beta_slow)), last)
    ramp = (np.arange(rope.dim // 2) - low) / max(high - low, 0.001)
    kept: Float[np.ndarray, " pairs"] = 1 - np.clip(ramp, 0, 1)
    return kept
