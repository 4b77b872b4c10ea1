"""What is done to each row of activations by itself, between products, by the native kernels.

A row's result does not depend on the other rows, bit for bit: XLA rounds differently in batches of
other sizes. The same in plain XLA stands in `pantheon.engine.model`, where it is chosen.

Where `live` is taken, it is the first token that is no padding and one past the last, the tokens of
all sequences counted as one axis. Padding costs nothing and comes out as zeros. None for no
padding.
"""

from pantheon.engine.kernels.row_wise.native import (
    add_rms_norm,
    largest,
    rms_norm,
    rotate,
    rotation,
    silu_product,
)

__all__ = ["add_rms_norm", "largest", "rms_norm", "rotate", "rotation", "silu_product"]
