"""Products with raw blocks, on a GPU, beside the same blocks unpacked by the gguf package.

Triton's kernels compile for GPUs alone, and what is here is imported but not run elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import gguf
import jax
import jax.numpy as jnp
import numpy as np
from gguf import quants

from bench.gpu_check.check import Check
from bench.random_blocks import q4_k, q6_k
from pantheon.engine.kernels.expert_matmul import by_expert
from pantheon.engine.kernels.expert_matmul import cases as expert_cases
from pantheon.engine.kernels.packed_matmul import cases as product_cases

_BLOCKS: Final = {"Q4_K": q4_k, "Q6_K": q6_k}
_TOLERANCES: Final = {"float32": 1e-4, "bfloat16": 1.6e-2, "float16": 2e-3}
"""Of the sum of the magnitudes of a product's terms: what rounding to the type costs."""


def raw_checks(device: jax.Device) -> Iterator[Check]:
    """Products of every shape and number of rows, types of activations, and experts'."""
    from pantheon.engine.kernels.packed_matmul.triton_product import raw_product

    for type in _BLOCKS:
        for case in (*product_cases.RAW_CASES, *product_cases.RAW_MODEL_CASES):
            data, values = raw_matrix(type, (case.outputs,), case.inputs)
            x = np.random.default_rng(1).standard_normal((case.rows, case.inputs), np.float32)
            for name in ("float32", "bfloat16", "float16") if case.rows > 8 else ("float32",):
                taken, blocks = jax.device_put((x.astype(jnp.dtype(name)), data), device)
                found = jax.jit(raw_product, static_argnums=2)(taken, blocks, type)
                error = product_error(np.asarray(found), x, values)
                title = f"raw_product, {type}, {name}: {case.name}, {case.outputs} outputs"
                yield Check(title, error, _TOLERANCES[name])
        for expert in expert_cases.CASES:
            yield _experts(device, type, expert)


def _experts(device: jax.Device, type: str, case: expert_cases.Case) -> Check:
    from pantheon.engine.kernels.expert_matmul.triton_product import expert_product

    def product(x: jax.Array, data: jax.Array, chosen: jax.Array) -> jax.Array:
        pairs = by_expert(chosen, case.experts)
        return expert_product(x, data, type, pairs, pairs.order // case.used)

    data, values = raw_matrix(type, (case.experts, case.outputs), case.inputs)
    x = np.random.default_rng(2).standard_normal((case.tokens, case.inputs), np.float32)
    chosen = case.chosen()
    found = np.asarray(jax.jit(product)(*jax.device_put((x, data, chosen), device)))
    error = _expert_error(found, x, values, chosen)
    return Check(f"expert_product, {type}: {case.name}", error, _TOLERANCES["float32"])


def raw_matrix(type: str, shape: tuple[int, ...], columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Random blocks, uint8 [*shape, row bytes], and their values, float32 [*shape, columns]."""
    random = np.random.default_rng(0)
    blocks = _BLOCKS[type](random, int(np.prod(shape)) * columns // 256, 0.05)
    data = blocks.reshape(*shape, -1)
    return data, quants.dequantize(data, gguf.GGMLQuantizationType[type])


def product_error(found: np.ndarray, x: np.ndarray, values: np.ndarray) -> float:
    """The largest error relative to the sum of the magnitudes of the terms."""
    exact = x.astype(np.float64) @ values.astype(np.float64).T
    terms = np.abs(x).astype(np.float64) @ np.abs(values).astype(np.float64).T
    return float(np.max(np.abs(found - exact) / terms))


def _expert_error(
    found: np.ndarray, x: np.ndarray, values: np.ndarray, chosen: np.ndarray
) -> float:
    """Of the pairs of tokens and experts that there are, in the order of the experts."""
    used, experts = chosen.shape[1], values.shape[0]
    order = np.argsort(chosen.reshape(-1), kind="stable")
    errors = [0.0]
    for place, pair in enumerate(order):
        expert = int(chosen.reshape(-1)[pair])
        if expert < experts:
            token = x[pair // used][None]
            errors.append(product_error(found[place][None], token, values[expert]))
    return float(np.max(errors))
