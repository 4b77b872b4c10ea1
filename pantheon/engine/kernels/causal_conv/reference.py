"""The definition: a row at a time, a tap at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def reference(
    x: Float[Array, "batch time channels"],
    kernel: Float[Array, "channels taps"],
    before: Float[Array, "batch taps_before channels"],
    valid: Bool[Array, "batch time"],
) -> tuple[Float[Array, "batch time channels"], Float[Array, "batch taps_before channels"]]:
    """See `causal_conv`."""
    taps = kernel.shape[1]
    first = jnp.argmax(valid, axis=1)
    after = first + jnp.sum(valid, axis=1, dtype=first.dtype)

    def one_row(
        inputs: Float[Array, "time channels"],
        held: Float[Array, "taps_before channels"],
        start: Int[Array, ""],
        stop: Int[Array, ""],
    ) -> tuple[Float[Array, "time channels"], Float[Array, "taps_before channels"]]:
        # Place p of the step stands at p + taps - 1 here, so that what came before the first
        # valid token goes right in front of it, over the padding that may stand there.
        padded = jnp.pad(inputs, ((taps - 1, 0), (0, 0)))
        padded = jax.lax.dynamic_update_slice_in_dim(padded, held, start, axis=0)
        time = inputs.shape[0]
        mixed = padded[:time] * kernel[:, 0]
        for tap in range(1, taps):
            mixed = mixed + padded[tap : tap + time] * kernel[:, tap]
        return mixed, jax.lax.dynamic_slice_in_dim(padded, stop, taps - 1, axis=0)

    return jax.vmap(one_row)(x, before, first, after)
