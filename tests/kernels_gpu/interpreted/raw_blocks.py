"""Matrices of reference blocks, and what the gguf package makes of them."""

from __future__ import annotations

import gguf
import numpy as np
from gguf import quants

from pantheon.engine.kernels.packed_matmul.raw_types import RAW_TYPES
from tests.golden import golden_arrays

TAME = 150
"""The first block of a reference file whose scales are not extreme (tests/data/README.md)."""


def raw_matrices(
    type: str, shape: tuple[int, ...], columns: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of random reference blocks: uint8 [*shape, row bytes], and their values in
    float64 [*shape, columns] by the gguf package."""
    kind = RAW_TYPES[type]
    packed = golden_arrays(f"blocks/{type}.npz")["packed"][TAME:]
    drawn = np.random.default_rng(seed).integers(0, len(packed), (*shape, columns // kind.values))
    data = packed[drawn].reshape(*shape, -1)
    values = quants.dequantize(data, gguf.GGMLQuantizationType[type])
    return data, values.astype(np.float64)


def far(found: np.ndarray, x: np.ndarray, values: np.ndarray) -> float:
    """The largest error of a product, relative to the sum of the magnitudes of its terms."""
    exact = x.astype(np.float64) @ values.T
    terms = np.abs(x.astype(np.float64)) @ np.abs(values).T
    return float(np.max(np.abs(found - exact) / terms))
