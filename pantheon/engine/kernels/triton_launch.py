"""Launches of Triton kernels, and the one place that knows jax-triton.

Neither Triton nor jax-triton is imported here before a launch is put into a step: only an
installation for GPUs has them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import jax

BACKEND_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        # The newest that the assembler of CUDA 12.9, which XLA calls, understands; Triton 3.9
        # writes a newer one if it is not told.
        "ptx_version": 87,
        # Fused multiply-adds are written out: what is rounded must not depend on the number of
        # rows that a program was compiled for.
        "enable_fp_fusion": False,
    }
)
"""Of the compiler, for every kernel."""


@dataclass(frozen=True, slots=True)
class TritonLaunch:
    """One call of one kernel without its arrays.

    Attributes:
        function: under `triton.jit`; its arrays come first, the one that it writes last of them.
        grid: programs along each axis.
        constants: values of the arguments under `tl.constexpr`, by name.
        warps: of a program, of 32 threads each.
        stages: how many passes of a loop are in flight, where Triton pipelines it.
    """

    function: Any
    grid: tuple[int, ...]
    constants: Mapping[str, Any]
    warps: int
    stages: int

    def __call__(
        self, *arrays: jax.Array, out: jax.ShapeDtypeStruct, capability: int | None = None
    ) -> jax.Array:
        """Call it inside a step.

        Args:
            arrays: what it reads.
            out: shape and type of what it writes.
            capability: of the GPU, 90 for Hopper; None asks the machine's.
        """
        jax_triton = importlib.import_module("jax_triton")
        written: jax.Array = jax_triton.triton_call(
            *arrays,
            kernel=self.function,
            out_type=out,
            grid=self.grid,
            name=self.function.fn.__name__,
            num_warps=self.warps,
            num_stages=self.stages,
            compute_capability=capability,
            backend_options=dict(BACKEND_OPTIONS),
            **self.constants,
        )
        return written
