"""The operation as the model calls it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jaxtyping import Array, Bool, Float

from pantheon.engine.kernels.causal_conv.reference import reference
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


def causal_conv(
    x: Float[Array, "batch time channels"],
    kernel: Float[Array, "channels taps"],
    before: Float[Array, "batch taps_before channels"],
    valid: Bool[Array, "batch time"],
    *,
    implementation: Implementation = Implementation.XLA,
) -> tuple[Float[Array, "batch time channels"], Float[Array, "batch taps_before channels"]]:
    """Convolve each channel with its own taps; the newest input meets the last tap.

    The inputs before a row's first valid token are its sequence's last ones, which are part of
    what a sequence leaves between steps. The valid tokens of a row stand next to each other;
    what is computed at the others means nothing.

    Args:
        before: the `taps - 1` inputs before the first valid token, oldest first.
        implementation: see `CHOSEN`.

    Returns:
        The convolved inputs, and `before` of what follows the last valid token: `before` itself,
        bit for bit, for a row without valid tokens.
    """
    if implementation.is_gpu:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.causal_conv.fused import fused_conv

        return fused_conv(x, kernel, before, valid, interpret=implementation.is_interpreted)
    return reference(x, kernel, before, valid)
