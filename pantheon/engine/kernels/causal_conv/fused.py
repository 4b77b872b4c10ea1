"""In Pallas: a stretch of tokens and some channels a program, each input read once for it.

What a stretch needs of the inputs before it is read again by each, a few rows; the loop over its
tokens is unrolled, so that all reads are under way at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.pallas import Ref, launch, masked_load, masked_store, span


@dataclass(frozen=True, slots=True)
class ConvTiles:
    """How the convolution is laid out on a GPU.

    Attributes:
        time: tokens of a program.
        channels: of a program, a power of two.
        warps: see `launch`.
    """

    time: int = 16
    channels: int = 256
    warps: int = 4


def fused_conv(
    x: Float[Array, "batch time channels"],
    kernel: Float[Array, "channels taps"],
    before: Float[Array, "batch taps_before channels"],
    valid: Bool[Array, "batch time"],
    *,
    tiles: ConvTiles | None = None,
    interpret: bool = False,
) -> tuple[Float[Array, "batch time channels"], Float[Array, "batch taps_before channels"]]:
    """See `causal_conv`. Padding is not read; sums are float32.

    Args:
        tiles: None for those of `ConvTiles()`.
        interpret: see `launch`.
    """
    batch, time, channels = x.shape
    taps = kernel.shape[1]
    tiles = tiles or ConvTiles()
    stretch = min(tiles.time, time)
    starts = jnp.argmax(valid, axis=1).astype(jnp.int32)
    ends = starts + jnp.sum(valid, axis=1, dtype=jnp.int32)

    def causal_conv(
        x: Ref,
        kernel: Ref,
        before: Ref,
        starts: Ref,
        ends: Ref,
        mixed: Ref,
        following: Ref,
    ) -> None:
        channel = span(pl.program_id(1) * tiles.channels, tiles.channels)
        has = channel < channels
        stretch_start, row = pl.program_id(0) * stretch, pl.program_id(2)
        start, end = starts[row], ends[row]

        def read(ref: Ref, mask: Bool[Array, " channels"]) -> Float[Array, " channels"]:
            return masked_load(ref, mask).astype(jnp.float32)

        held = [read(before.at[row, np.int32(index), channel], has) for index in range(taps - 1)]
        factors = [read(kernel.at[channel, np.int32(tap)], has) for tap in range(taps)]

        def input_at(place: Int[Array, ""]) -> Float[Array, " channels"]:
            is_real = (start <= place) & (place < end)
            found = read(x.at[row, place, channel], has & is_real)
            for index, one in enumerate(held):
                found = jnp.where(place == start - (taps - 1) + index, one, found)
            return found

        first_place = stretch_start - (taps - 1)
        inputs = [input_at(first_place + index) for index in range(stretch + taps - 1)]
        for index in range(stretch):
            found = inputs[index] * factors[0]
            for tap in range(1, taps):
                found += inputs[index + tap] * factors[tap]
            place = stretch_start + index
            masked_store(
                mixed.at[row, place, channel], found.astype(mixed.dtype), has & (place < time)
            )

        @pl.when(stretch_start == 0)
        def _() -> None:
            for index in range(taps - 1):
                last = input_at(end - (taps - 1) + index)
                masked_store(
                    following.at[row, np.int32(index), channel], last.astype(following.dtype), has
                )

    mixed, following = launch(
        causal_conv,
        (x, kernel, before, starts, ends),
        [
            jax.ShapeDtypeStruct(x.shape, x.dtype),  # type: ignore[no-untyped-call]
            jax.ShapeDtypeStruct(before.shape, before.dtype),  # type: ignore[no-untyped-call]
        ],
        grid=(-(-time // stretch), -(-channels // tiles.channels), batch),
        warps=tiles.warps,
        stages=1,
        interpret=interpret,
    )
    return mixed, following
