"""Triton kernels compiled ahead of time, by the compiler and the assembler that Triton brings."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import triton
from triton._C.libtriton import ir as module_ir
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.compiler import CompiledKernel as Program

from bench.ahead_of_time.compiled import CompiledKernel
from bench.ahead_of_time.moved_bytes import moved_bytes
from pantheon.engine.kernels.triton_launch import BACKEND_OPTIONS

_USAGE: Final = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of one kernel, as far as compiling needs it.

    Attributes:
        kernel, case: names for the table.
        grid: programs along each axis.
        warps: of a program, of 32 threads each.
        stages: how many passes of a loop are in flight.
        least_bytes: inputs and outputs, each once.
        trips: of the loops without constant bounds; see `moved_bytes`.
        fused: whether the compiler may make fused multiply-adds of its own, as it does for Pallas.
    """

    kernel: str
    case: str
    grid: tuple[int, ...]
    warps: int
    stages: int
    least_bytes: int
    trips: tuple[float, ...] = ()
    fused: bool = False


def compiled_function(
    launch: Launch,
    function: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    capability: int,
) -> CompiledKernel:
    """Compile a function under `triton.jit`.

    Args:
        types: those of arguments by name as Triton writes them, such as `*fp16`; arrays begin at
            multiples of 16 bytes, as those of JAX do.
        constants: values of the arguments under `tl.constexpr`, by name.
    """
    names = function.arg_names
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if signature[name].startswith("*")
    }
    source = ASTSource(function, signature, dict(constants), aligned)
    return _compiled(launch, source, capability)


def compiled_ir(launch: Launch, ir: str, capability: int) -> CompiledKernel:
    """Compile a module in Triton's dialect, which Pallas makes too.

    Args:
        ir: its text.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ttir"
        file.write_text(ir, encoding="utf-8")
        file.write_text(_optimised_ir(file, capability), encoding="utf-8")
        return _compiled(launch, str(file), capability)


def _optimised_ir(file: Path, capability: int) -> str:
    """The module after Triton's own optimisations, which it leaves out for modules in files.

    XLA makes them of what Pallas gives it: a store of Pallas's first reads what it overwrites, and
    its loops have bounds that are sums, until then.
    """
    context = module_ir.context()
    backend = CUDABackend(GPUTarget("cuda", capability, 32))
    module_ir.load_dialects(context)
    backend.load_dialects(context)
    module = module_ir.parse_mlir_module(str(file), context)
    module.context = context
    return str(backend.make_ttir(module, {}, None, capability))


def _compiled(launch: Launch, source: Any, capability: int) -> CompiledKernel:
    options = {
        "num_warps": launch.warps,
        "num_stages": launch.stages,
        **BACKEND_OPTIONS,
        "enable_fp_fusion": launch.fused,
    }
    # Of a folder of its own, so that nothing was compiled before.
    with TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        start = _processor_seconds()
        program = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        seconds = _processor_seconds() - start
        registers, spilled = _usage(program)
    return CompiledKernel(
        kernel=launch.kernel,
        case=launch.case,
        capability=capability,
        registers=registers,
        spilled_bytes=spilled,
        shared_bytes=program.metadata.shared,
        moved_bytes=moved_bytes(program.asm["ttir"], math.prod(launch.grid), launch.trips),
        least_bytes=launch.least_bytes,
        seconds=seconds,
    )


def _processor_seconds() -> float:
    """Of this process and of those that it waited for, the assembler among them."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _usage(program: Program) -> tuple[int, int]:
    """Registers of a thread, and bytes of it that are in memory.

    Triton keeps no array of a thread in memory, so that all of them are spilled registers.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(program.asm["cubin"])
        tool = triton.knobs.nvidia.cuobjdump.path
        told = subprocess.run(
            [tool, "-res-usage", str(file)], capture_output=True, text=True, check=True
        ).stdout
    found = _USAGE.search(told)
    if found is None:
        raise ValueError(f"cuobjdump: expected REG, STACK and LOCAL of a function, got {told!r}")
    registers, stack, local = map(int, found.groups())
    return registers, stack + local
