"""What a packed weight costs: a product of one activation row beside that of a float32 weight."""

from __future__ import annotations

import time
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

from bench.comparison import Comparison
from pantheon.engine.gguf import block_layout
from pantheon.engine.model.dequantize import PACKED_TYPES
from pantheon.engine.model.linear import linear
from pantheon.engine.model.packed import PackedMatrix, Weight
from pantheon.engine.runner.compiler_options import compiler_options

_ROWS: Final = 2048
_COLUMNS: Final = 2048
_CALLS: Final = 10


def compare_packed(rounds: int) -> tuple[Comparison, ...]:
    """Weights a second (10^9) of every packed type and of float32, in turns."""
    drawn = np.random.default_rng(0)
    x = jnp.asarray(drawn.standard_normal((1, _COLUMNS), np.float32))
    plain = jnp.asarray(drawn.standard_normal((_ROWS, _COLUMNS), np.float32))
    compiled_plain = _compiled(x, plain)
    comparisons = []
    for type in PACKED_TYPES:
        values, size = block_layout(type)
        packed = drawn.integers(0, 256, (_ROWS, _COLUMNS // values * size), np.uint8)
        weight = PackedMatrix(jnp.asarray(packed), type, _COLUMNS)
        compiled = _compiled(x, weight)
        samples = [
            (_rate(compiled, x, weight), _rate(compiled_plain, x, plain)) for _ in range(rounds)
        ]
        ours, theirs = zip(*samples, strict=True)
        comparisons.append(Comparison(f"product with {type.name}", ours, theirs))
    return tuple(comparisons)


def _compiled(x: jax.Array, weight: Weight) -> jax.stages.Compiled:
    return jax.jit(linear).lower(x, weight).compile(compiler_options())


def _rate(product: jax.stages.Compiled, x: jax.Array, weight: Weight) -> float:
    start = time.perf_counter()
    for _ in range(_CALLS):
        product(x, weight).block_until_ready()
    return _CALLS * _ROWS * _COLUMNS / (time.perf_counter() - start) / 1e9
