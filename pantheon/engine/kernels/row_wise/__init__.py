"""What is done to each row of activations by itself, between products, by the native kernels.

A row's result does not depend on the other rows, bit for bit: XLA rounds differently in batches of
other sizes. The same in plain XLA stands in `pantheon.engine.model`, where it is chosen.
"""

from pantheon.engine.kernels.row_wise.native import rms_norm, rotate, rotation, silu_product

__all__ = ["rms_norm", "rotate", "rotation", "silu_product"]
