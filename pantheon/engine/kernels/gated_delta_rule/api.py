"""The operation as the model calls it."""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from pantheon.engine.kernels.gated_delta_rule.chunked import chunked
from pantheon.engine.kernels.gated_delta_rule.reference import reference


def gated_delta_rule(
    query: Float[Array, "batch time heads key_dim"],
    key: Float[Array, "batch time heads key_dim"],
    value: Float[Array, "batch time heads value_dim"],
    log_decay: Float[Array, "batch time heads"],
    strength: Float[Array, "batch time heads"],
    valid: Bool[Array, "batch time"],
    state: Float[Array, "batch heads key_dim value_dim"],
    *,
    fused: bool = False,
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
        fused: by the kernels for GPUs, which compile for nothing else. Keys are then of length one
            or less.

    Returns:
        The outputs, and the state after the last valid token.
    """
    arguments = (query, key, value, log_decay, strength, valid, state)
    if fused:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.gated_delta_rule.fused_chunks import fused_chunks
        from pantheon.engine.kernels.gated_delta_rule.fused_step import fused_step

        return fused_step(*arguments) if query.shape[1] == 1 else fused_chunks(*arguments)
    # One token needs no matrix of chunk by chunk.
    implementation = reference if query.shape[1] == 1 else chunked
    return implementation(*arguments)
