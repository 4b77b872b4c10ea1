"""Dequantisation inside a compiled step, bit for bit (tests/data/README.md, blocks)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.gguf import TensorType
from pantheon.engine.model.dequantize import dequantize
from tests.golden import DATA, golden_arrays

_TYPES = sorted({path.stem for path in (DATA / "blocks").glob("*.npz")} - {"F16", "BF16"})


def _same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """NaNs are compared by kind, everything else bit for bit."""
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~number)
    np.testing.assert_array_equal(found[number].view("u4"), expected[number].view("u4"))


@pytest.mark.parametrize("name", _TYPES)
def test_blocks_are_bit_exact(name: str) -> None:
    """tests/data/blocks/TYPE.npz, subnormal scales and overflowing exponents included."""
    golden = golden_arrays(f"blocks/{name}.npz")
    step = jax.jit(dequantize, static_argnums=1)
    found = np.asarray(step(jnp.asarray(golden["packed"]), TensorType[name]))
    assert found.dtype == np.float32
    _same_bits(found, golden["dequantized"])
