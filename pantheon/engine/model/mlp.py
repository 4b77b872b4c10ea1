"""The feed-forward layer."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels import row_wise
from pantheon.engine.kernels.implementation import Implementation
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
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "batch time hidden"]:
    """SwiGLU (Shazeer, 2020): `down(silu(gate(x)) * up(x))`.

    Args:
        live: see `linears`.
        implementation: of the factors, see `row_wise.CHOSEN`.
    """
    gate, up = linears(x, (parameters.gate, parameters.up), live, implementation=implementation)
    inner = silu_product(gate, up, live, implementation=implementation)
    return linear(inner, parameters.down, live, implementation=implementation)


def silu_product(
    gate: Float[Array, "*tokens inner"],
    up: Float[Array, "*tokens inner"],
    live: Int[Array, " bounds"] | None = None,
    *,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "*tokens inner"]:
    """`silu(gate) * up`; see `swiglu`."""
    if implementation is Implementation.NATIVE:
        return row_wise.silu_product(gate, up, live)
    if implementation.is_gpu:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.row_wise import pallas

        return pallas.silu_product(gate, up, live, interpret=implementation.is_interpreted)
    return jax.nn.silu(gate) * up
