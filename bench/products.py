"""All matrix products of a model's step and nothing else: no attention, no sampling, no server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import jax
import jax.numpy as jnp
import numpy as np

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import native_missing
from pantheon.engine.model.linear import linears
from pantheon.engine.model.packed import Weight
from pantheon.engine.model.read import native_matrix
from pantheon.engine.runner import PREFILL_CHUNK
from pantheon.engine.runner.compiler_options import compiler_options

_TOGETHER: Final = (
    ("attn_q", "attn_k", "attn_v"),
    ("attn_output",),
    ("ffn_gate", "ffn_up"),
    ("ffn_down",),
)
"""Matrices of a layer that share their input."""

_HEADS: Final = ("output.weight", "token_embd.weight")
_LEAST_SECONDS: Final = 0.5
_LEAST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a model's products multiply.

    Attributes:
        layers: weights of all layers.
        head: weights of the head.
        bytes: of all of them in the file.
    """

    layers: int
    head: int
    bytes: int

    def macs(self, rows: int, heads: int) -> int:
        """Multiply-adds of `rows` rows, of which `heads` get scores."""
        return rows * self.layers + heads * self.head


def sizes_of(model: Path) -> Sizes:
    """The sizes of a dense model of the usual names."""
    layers = head = packed = 0
    with GGUFFile(model) as file:
        groups = tuple(_groups(file))
        for group in groups:
            for name in group:
                info = file.tensors[name]
                count = info.shape[0] * info.shape[1]
                packed += file.tensor(name).packed.nbytes
                if group is groups[-1]:
                    head += count
                else:
                    layers += count
    return Sizes(layers, head, packed)


def _groups(file: GGUFFile) -> Iterator[tuple[str, ...]]:
    layer = 0
    while f"blk.{layer}.attn_q.weight" in file.tensors:
        for names in _TOGETHER:
            yield tuple(f"blk.{layer}.{name}.weight" for name in names)
        layer += 1
    yield (next(name for name in _HEADS if name in file.tensors),)


class PlainProducts:
    """The products in numpy, by the float32 matrix product of its BLAS, weights unpacked before."""

    def __init__(self, model: Path) -> None:
        """Unpack all weights."""
        reader = gguf.GGUFReader(model)
        tensors = {tensor.name: tensor for tensor in reader.tensors}
        with GGUFFile(model) as file:
            groups = tuple(_groups(file))
        self._matrices = [
            [gguf.dequantize(tensors[name].data, tensors[name].tensor_type) for name in group]
            for group in groups
        ]

    def seconds(self, rows: int, heads: int) -> float:
        """Of all products of `rows` rows at once, of which `heads` get scores: the median run."""
        random = np.random.default_rng(0)
        inputs = {
            count: random.standard_normal((rows, count), np.float32)
            for count in {group[0].shape[1] for group in self._matrices}
        }

        def run() -> None:
            for group in self._matrices[:-1]:
                for matrix in group:
                    inputs[matrix.shape[1]] @ matrix.T
            head = self._matrices[-1][0]
            inputs[head.shape[1]][:heads] @ head.T

        return _median_seconds(run)


class NativeProducts:
    """The products by the native kernels, called as the model calls them."""

    def __init__(self, model: Path) -> None:
        """Lay all weights out. `native_missing` must be None."""
        with GGUFFile(model) as file:
            self._weights: list[list[Weight]] = []
            for group in _groups(file):
                tensors = [file.tensor(name) for name in group]
                self._weights.append(
                    [native_matrix(one.type, one.packed, one.shape[-1]) for one in tensors]
                )
        self._steps: dict[tuple[int, int], Any] = {}

    @staticmethod
    def missing() -> str | None:
        """Why there are none; None where there are."""
        return native_missing()

    @classmethod
    def where_built(cls, model: Path) -> NativeProducts | None:
        """Those of a model; None, with a line that says why, where the kernels are not built."""
        missing = cls.missing()
        if missing is None:
            return cls(model)
        print(f"the native kernels are missing: {missing}")
        return None

    def seconds(self, rows: int, heads: int) -> float:
        """As `PlainProducts.seconds`; chunk by chunk where rows are many."""
        chunk = min(rows, PREFILL_CHUNK)
        if (chunk, heads) not in self._steps:
            self._steps[chunk, heads] = self._compiled(chunk, heads)
        compiled = self._steps[chunk, heads]
        runs = rows // chunk
        inputs = {
            group[0].shape[1]: jnp.ones((chunk, group[0].shape[1]), jnp.float32)
            for group in self._weights
        }

        def run() -> None:
            for _ in range(runs):
                compiled(self._weights, inputs).block_until_ready()

        return _median_seconds(run)

    def _compiled(self, rows: int, heads: int) -> Any:
        def step(weights: list[list[Weight]], inputs: dict[int, jax.Array]) -> jax.Array:
            # Each product waits for the one before it, as it does in a model.
            total = jnp.zeros((), jnp.float32)
            for index, group in enumerate(weights):
                x = inputs[group[0].shape[1]] + 0 * total
                x = x[:heads] if index == len(weights) - 1 else x
                total = sum((found[0, 0] for found in linears(x, group)), jnp.zeros(()))
            return total

        inputs = {
            group[0].shape[1]: jnp.ones((rows, group[0].shape[1]), jnp.float32)
            for group in self._weights
        }
        return jax.jit(step).lower(self._weights, inputs).compile(compiler_options())


def _median_seconds(run: Any) -> float:
    """As the race takes medians too."""
    run()
    times: list[float] = []
    while sum(times) < _LEAST_SECONDS or len(times) < _LEAST_RUNS:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
