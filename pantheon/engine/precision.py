"""In which numbers products are computed, and keys and values held."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np


class Precision(Enum):
    """What activations are while they are multiplied, and keys and values while they are kept.

    DEFAULT rounds activations to 16 bits where the weights are codes and that is the faster way,
    which for steps of more than 16 rows depends on the processor: 32 columns of a row share a
    scale, and sums of their products are exact whole numbers. Each activation is off by at most
    1 / 65000 of the largest of its 32. Keys and values are float16: off by at most 1 / 2048 of
    themselves. FLOAT32 leaves all of them as they are.
    """

    DEFAULT = "default"
    FLOAT32 = "float32"

    @property
    def kv_dtype(self) -> np.dtype[Any]:
        """The type of keys and values."""
        return np.dtype(np.float32 if self is Precision.FLOAT32 else np.float16)
