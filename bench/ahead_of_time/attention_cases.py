"""Paged attention at the sizes of models that an H200 serves."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from bench.ahead_of_time.compiled import CompiledKernel
from bench.ahead_of_time.job import Job
from bench.ahead_of_time.pallas import Cost, compiled_kernels
from pantheon.engine.kernels.paged_attention.flash_decode import DecodeTiles, flash_decode
from pantheon.engine.kernels.paged_attention.flash_prefill import PrefillTiles, flash_prefill

_PAGE: Final = 64
_DECODE_TILES: Final = DecodeTiles()


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """One layer's attention in a step.

    Attributes:
        rows: sequences, each as long as its table.
        time: tokens of each row that are queries, its last.
        length: tokens of a row, the queries included.
        pages: of the pool, of which the rows use some.
        dtype: of keys and values; queries and outputs are float32.
    """

    name: str
    rows: int
    time: int
    heads: int
    kv_heads: int
    head_dim: int
    length: int
    pages: int = 16384
    dtype: str = "float16"

    @property
    def page(self) -> tuple[int, int, int]:
        """The shape of a page of one layer's keys."""
        return (self.kv_heads, _PAGE, self.head_dim)

    @property
    def read_bytes(self) -> int:
        """Of queries, keys, values, tables, positions and lengths, each once."""
        kept = self.rows * self.length * self.kv_heads * self.head_dim
        queries = self.rows * self.time * self.heads * self.head_dim
        tables = self.rows * (self.length // _PAGE + self.time + 1)
        return 2 * kept * jnp.dtype(self.dtype).itemsize + 4 * (queries + tables)

    @property
    def written_bytes(self) -> int:
        """Of the output."""
        return 4 * self.rows * self.time * self.heads * self.head_dim

    def arguments(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes of what `paged_attention` takes."""

        def of(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

        pages = of((self.pages, *self.page), jnp.dtype(self.dtype))
        return (
            of((self.rows, self.time, self.heads, self.head_dim), np.float32),
            pages,
            pages,
            of((self.rows, self.length // _PAGE), np.int32),
            of((self.rows, self.time), np.int32),
            of((self.rows,), np.int32),
        )


DECODE: Final = (
    AttentionCase("8 rows, 32/8 heads of 128, 32768", 8, 1, 32, 8, 128, 32768),
    AttentionCase("8 rows, 16/2 heads of 256, 32768", 8, 1, 16, 2, 256, 32768),
    AttentionCase("1 row, 32/8 heads of 128, 4096", 1, 1, 32, 8, 128, 4096),
    AttentionCase("1 row, 9/3 heads of 64, 8192", 1, 1, 9, 3, 64, 8192),
    AttentionCase("8 rows, 32/32 heads of 96, 4096", 8, 1, 32, 32, 96, 4096),
    AttentionCase("bfloat16", 8, 1, 32, 8, 128, 32768, dtype="bfloat16"),
    AttentionCase("float32", 8, 1, 32, 8, 128, 32768, dtype="float32"),
    AttentionCase("a pool of 17 GB", 8, 1, 32, 8, 128, 32768, pages=131072),
)
PREFILL: Final = (
    AttentionCase("128 of 8192, 32/8 heads of 128", 1, 128, 32, 8, 128, 8192),
    AttentionCase("128 of 8192, 16/2 heads of 256", 1, 128, 16, 2, 256, 8192),
    AttentionCase("128 of 8192, 9/3 heads of 64", 1, 128, 9, 3, 64, 8192),
    AttentionCase("128 of 8192, 32/32 heads of 96", 1, 128, 32, 32, 96, 8192),
    AttentionCase("bfloat16", 1, 128, 32, 8, 128, 8192, dtype="bfloat16"),
    AttentionCase("float32", 1, 128, 32, 8, 128, 8192, dtype="float32"),
    AttentionCase("a pool of 17 GB", 1, 128, 32, 8, 128, 8192, pages=131072),
)


def jobs() -> Iterator[Job]:
    """Every case."""
    for case in DECODE:
        yield functools.partial(decode_kernels, case)
    for case in PREFILL:
        yield functools.partial(prefill_kernels, case)


def decode_kernels(
    case: AttentionCase, capability: int, tiles: DecodeTiles = _DECODE_TILES
) -> list[CompiledKernel]:
    """`flash_decode` of one case."""
    parts = case.length // tiles.part
    # A part of a query head leaves its values, its peak and its total.
    partial = 4 * case.rows * case.heads * parts * (case.head_dim + 2)
    return compiled_kernels(
        functools.partial(flash_decode, scale=case.head_dim**-0.5, tiles=tiles),
        case.arguments(),
        capability,
        case=case.name,
        costs={
            "flash_decode_part": Cost(case.read_bytes + partial, (tiles.part / tiles.keys,)),
            "flash_decode_merge": Cost(partial + case.written_bytes, (parts / tiles.merged,)),
        },
    )


def prefill_kernels(
    case: AttentionCase, capability: int, tiles: PrefillTiles | None = None
) -> list[CompiledKernel]:
    """`flash_prefill` of one case, by chosen tiles or those that it chooses itself."""
    tiles = tiles or PrefillTiles.of(case.head_dim, jnp.dtype(case.dtype).itemsize)
    # A tile of queries sees the keys before it and in it.
    seen = [
        case.length - case.time + end
        for end in range(tiles.queries, case.time + tiles.queries, tiles.queries)
    ]
    trips = sum(-(-end // tiles.keys) for end in seen) / len(seen)
    return compiled_kernels(
        functools.partial(flash_prefill, scale=case.head_dim**-0.5, tiles=tiles),
        case.arguments(),
        capability,
        case=case.name,
        costs={"flash_prefill_tile": Cost(case.read_bytes + case.written_bytes, (trips,))},
    )
