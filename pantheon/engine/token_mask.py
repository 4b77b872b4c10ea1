"""Which tokens may come next."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TokenMask: TypeAlias = NDArray[np.uint32]
"""uint32 [words]: bit i of word j is set when token 32 j + i is allowed. A mask may end before
the vocabulary does; what lies past it is not allowed."""
