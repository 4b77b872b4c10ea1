"""The feed-forward layer."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float

from pantheon.engine.model.linear import linear


class MlpParameters(NamedTuple):
    """Weights of one gated feed-forward layer."""

    gate: Float[Array, "inner hidden"]
    up: Float[Array, "inner hidden"]
    down: Float[Array, "hidden inner"]


def swiglu(
    parameters: MlpParameters, x: Float[Array, "batch time hidden"]
) -> Float[Array, "batch time hidden"]:
    """SwiGLU (Shazeer, 2020): `down(silu(gate(x)) * up(x))`."""
    gated = jax.nn.silu(linear(x, parameters.gate)) * linear(x, parameters.up)
    return linear(gated, parameters.down)
