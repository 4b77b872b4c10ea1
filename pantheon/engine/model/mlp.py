"""The feed-forward layer."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels import row_wise
from pantheon.engine.model.linear import linear, linears
from pantheon.engine.model.packed import Weight


class MlpParameters(NamedTuple):
    """Weights of one gated feed-forward layer."""

    gate: Weight
    up: Weight
    down: Weight


def swiglu(
    parameters: MlpParameters,
    x: Float[Array, "batch time hidden"],
    live: Int[Array, " bounds"] | None = None,
    *,
    native: bool = False,
) -> Float[Array, "batch time hidden"]:
    """SwiGLU (Shazeer, 2020): `down(silu(gate(x)) * up(x))`.

    Args:
        live: see `linears`.
        native: the factors by the native kernels, which must be there.
    """
    gate, up = linears(x, (parameters.gate, parameters.up), live)
    inner = row_wise.silu_product(gate, up, live) if native else jax.nn.silu(gate) * up
    return linear(inner, parameters.down, live)
