"""Products with raw blocks as XLA and Triton compile them for a GPU, without one."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pantheon.engine.kernels.expert_matmul import by_expert
from pantheon.engine.kernels.expert_matmul.triton_product import expert_product
from pantheon.engine.kernels.packed_matmul.raw_types import RAW_TYPES
from pantheon.engine.kernels.packed_matmul.triton_product import product_launch, raw_product
from pantheon.engine.kernels.triton_launch import BACKEND_OPTIONS

_TARGET = "triton_kernel_call_ffi"
"""Of the two calls that XLA has for Triton's kernels, the one that goes into command buffers."""


def _lowered(function: object, *arguments: jax.ShapeDtypeStruct) -> str:
    traced = jax.jit(function).trace(*arguments)
    return traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("rows", [1, 16])
def test_a_product_is_one_call_in_a_step(rows: int) -> None:
    x = jax.ShapeDtypeStruct((rows, 512), jnp.bfloat16)
    data = jax.ShapeDtypeStruct((96, 288), jnp.uint8)
    text = _lowered(lambda x, data: raw_product(x, data, "Q4_K", capability=90), x, data)
    assert text.count(_TARGET) == 1
    assert f"tensor<{rows}x96xf32>" in text


def test_a_product_with_experts_is_one_call_in_a_step() -> None:
    def step(x: jax.Array, data: jax.Array, chosen: jax.Array) -> jax.Array:
        pairs = by_expert(chosen, 16)
        return expert_product(x, data, "Q5_K", pairs, pairs.order // 2, capability=90)

    x = jax.ShapeDtypeStruct((8, 512), jnp.bfloat16)
    data = jax.ShapeDtypeStruct((16, 96, 352), jnp.uint8)
    chosen = jax.ShapeDtypeStruct((8, 2), jnp.int32)
    text = _lowered(step, x, data, chosen)
    assert text.count(_TARGET) == 1
    assert "tensor<16x96xf32>" in text


def _layout_of_sums(type: str, rows: int) -> set[str]:
    """How the values of each row's sums lie in threads: the layouts of what is multiplied."""
    kind = RAW_TYPES[type]
    blocks = 4096 // kind.values
    launch = product_launch((rows, 4096), "bfloat16", (4096, blocks * kind.size), type)
    names = launch.function.arg_names
    types = {"x": "*bf16", "data": "*u8", "out": "*fp32"}
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(3)}
    source = ASTSource(launch.function, signature, dict(launch.constants), aligned)
    options = {"num_warps": launch.warps, "num_stages": launch.stages, **BACKEND_OPTIONS}
    program = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    text = program.asm["ttgir"]
    layouts = dict(re.findall(r"^(#\w+) = (.*)$", text, re.MULTILINE))
    fused = re.findall(r"math\.fma .*: tensor<[\dx]+xf32, (#\w+)>", text)
    assert len(fused) == rows * kind.parts
    return {layouts[name] for name in fused}


@pytest.mark.parametrize("type", ["Q4_0", "Q4_K", "Q6_K"])
def test_the_order_of_sums_is_the_same_for_one_row_and_for_eight(type: str) -> None:
    """Each thread adds up the columns that its layout gives it, and then threads are added up."""
    alone = _layout_of_sums(type, 1)
    assert len(alone) == 1
    assert _layout_of_sums(type, 8) == alone
