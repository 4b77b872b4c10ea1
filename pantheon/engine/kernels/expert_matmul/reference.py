"""The product in plain XLA: the definition that the Triton kernel is tested against."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.expert_matmul.pairs import ExpertPairs


def reference(
    x: Float[Array, "inputs columns"],
    stack: Float[Array, "experts outputs columns"],
    pairs: ExpertPairs,
    sources: Int[Array, " pairs"],
) -> Float[Array, "pairs outputs"]:
    """A row of `x` times the transpose of its expert's matrix, for each place of the order.

    Args:
        stack: the values of the matrices.
        sources: which row of `x` each place takes: `pairs.order // used` where rows are tokens,
            0, 1, 2 and so on where `x` is in the order of places, as what this returns is.

    Returns:
        Float32; zeros for places without an expert.
    """
    place = jnp.arange(pairs.order.shape[0])
    experts = stack.shape[0]
    expert = jnp.searchsorted(pairs.starts + pairs.counts, place, side="right")
    matrices = stack[jnp.minimum(expert, experts - 1)]
    found = jnp.einsum("pk,pok->po", x[sources], matrices, precision=jax.lax.Precision.HIGHEST)
    return jnp.where((expert < experts)[:, None], found, 0).astype(jnp.float32)
