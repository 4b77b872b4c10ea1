"""The products with raw blocks, for the table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from bench.ahead_of_time.compiled import CompiledKernel
from bench.ahead_of_time.job import Job
from bench.ahead_of_time.triton import Launch, compiled_function
from pantheon.engine.kernels.expert_matmul.cases import MODEL_CASES
from pantheon.engine.kernels.expert_matmul.cases import Case as ExpertCase
from pantheon.engine.kernels.expert_matmul.triton_product import FEW, MANY, grouped_launch
from pantheon.engine.kernels.packed_matmul.cases import RAW_MODEL_CASES
from pantheon.engine.kernels.packed_matmul.cases import Case as ProductCase
from pantheon.engine.kernels.packed_matmul.raw_types import RAW_TYPES
from pantheon.engine.kernels.packed_matmul.triton_product import MOST_FEW, product_launch
from pantheon.engine.kernels.triton_launch import TritonLaunch

_EXPERT_TYPES: Final = ("Q3_K", "Q4_K", "Q5_K", "Q6_K")
"""What files of mixtures have."""

_FEW_TOKENS: Final = 8


def jobs() -> Iterator[Job]:
    """Every type with every case."""
    for type in RAW_TYPES:
        for case in RAW_MODEL_CASES:
            yield partial(_product, type, case)
    for type in _EXPERT_TYPES:
        for expert_case in MODEL_CASES:
            yield partial(_experts, type, expert_case)


def _product(type: str, case: ProductCase, capability: int) -> tuple[CompiledKernel]:
    kind = RAW_TYPES[type]
    row_bytes = case.inputs // kind.values * kind.size
    launch = product_launch((case.rows, case.inputs), "bfloat16", (case.outputs, row_bytes), type)
    least = case.outputs * row_bytes + case.rows * (2 * case.inputs + 4 * case.outputs)
    name = f"{'gemv' if case.rows <= MOST_FEW else 'gemm'} {type}"
    types = {"x": "*bf16", "data": "*u8", "out": "*fp32"}
    return _compiled(name, case.name, launch, launch.grid, types, least, capability)


def _experts(type: str, case: ExpertCase, capability: int) -> tuple[CompiledKernel]:
    """Only tiles that have something to do count: the others look at one number and end."""
    kind = RAW_TYPES[type]
    row_bytes = case.inputs // kind.values * kind.size
    tiles = FEW if case.tokens <= _FEW_TOKENS else MANY
    chosen = case.chosen()
    launch = grouped_launch(
        (case.tokens, case.inputs),
        "bfloat16",
        (case.experts, case.outputs, row_bytes),
        type,
        chosen.size,
        tiles,
    )
    counts = np.bincount(chosen.reshape(-1), minlength=case.experts)
    active = int(np.sum(-(-counts // tiles.rows)))
    least = (
        int(np.sum(counts > 0)) * case.outputs * row_bytes
        + case.tokens * 2 * case.inputs
        + chosen.size * 4 * case.outputs
    )
    numbers = dict.fromkeys(("experts", "firsts", "filled", "sources"), "*i32")
    types = {"x": "*bf16", "data": "*u8", "out": "*fp32"} | numbers
    grid = (active, *launch.grid[1:])
    return _compiled(f"experts {type}", case.name, launch, grid, types, least, capability)


def _compiled(
    kernel: str,
    case: str,
    launch: TritonLaunch,
    grid: tuple[int, ...],
    types: dict[str, str],
    least: int,
    capability: int,
) -> tuple[CompiledKernel]:
    named: dict[str, Any] = dict(launch.constants)
    call = Launch(kernel, case, grid, launch.warps, launch.stages, least)
    return (compiled_function(call, launch.function, types, named, capability),)
