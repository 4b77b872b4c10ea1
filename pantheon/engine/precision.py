"""In which numbers products are computed."""

from __future__ import annotations

from enum import Enum


class Precision(Enum):
    """What activations are while they are multiplied.

    DEFAULT rounds them to 16 bits where the weights are codes and that is the faster way, which for
    steps of more than 16 rows depends on the processor: 32 columns of a row share a scale, and sums
    of their products are exact whole numbers. Each activation is off by at most 1 / 65000 of the
    largest of its 32. FLOAT32 leaves them as they are.
    """

    DEFAULT = "default"
    FLOAT32 = "float32"
