"""The operation as the model calls it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jaxtyping import Array, Bool, Float

from pantheon.engine.kernels.gated_delta_rule.chunked import chunked
from pantheon.engine.kernels.gated_delta_rule.reference import reference
from pantheon.engine.kernels.implementation import Implementation

CHOSEN: Final[Mapping[Implementation, str]] = MappingProxyType(
    {
        Implementation.NATIVE: "plain XLA",
        Implementation.XLA: "plain XLA",
        Implementation.GPU: "Pallas",
        Implementation.GPU_INTERPRETED: "Pallas, interpreted",
    }
)
"""What computes the operation."""


def gated_delta_rule(
    query: Float[Array, "batch time heads key_dim"],
    key: Float[Array, "batch time heads key_dim"],
    value: Float[Array, "batch time heads value_dim"],
    log_decay: Float[Array, "batch time heads"],
    strength: Float[Array, "batch time heads"],
    valid: Bool[Array, "batch time"],
    state: Float[Array, "batch heads key_dim value_dim"],
    *,
    implementation: Implementation = Implementation.XLA,
) -> tuple[
    Float[Array, "batch time heads value_dim"], Float[Array, "batch heads key_dim value_dim"]
]:
    """Run the tokens of a step through the state (Yang et al., 2024, Gated Delta Networks).

    For each head and token: `S = exp(log_decay) S`, then what `S` holds for the key is moved
    towards the value, `S += strength key (value - key S)`, and the output is `query S`. All in
    float32. A token that is not valid leaves the state as it is, bit for bit; its output means
    nothing.

    Args:
        query: scaled already.
        log_decay: at most 0.
        strength: between 0 and 1.
        implementation: see `CHOSEN`. By the kernels for GPUs keys are of length one or less.

    Returns:
        The outputs, and the state after the last valid token.
    """
    arguments = (query, key, value, log_decay, strength, valid, state)
    if implementation.is_gpu:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.gated_delta_rule.fused_chunks import fused_chunks
        from pantheon.engine.kernels.gated_delta_rule.fused_step import fused_step

        fused = fused_step if query.shape[1] == 1 else fused_chunks
        return fused(*arguments, interpret=implementation.is_interpreted)
    # One token needs no matrix of chunk by chunk.
    in_xla = reference if query.shape[1] == 1 else chunked
    return in_xla(*arguments)
