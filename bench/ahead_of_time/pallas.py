"""Pallas kernels lowered for a GPU that is not there, and compiled as Triton's are.

JAX hands a Pallas kernel to XLA as a module in Triton's dialect, which is taken from the lowered
program before XLA sees it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
from jax._src.interpreters import mlir
from jax._src.lib import triton as _triton  # noqa: F401  (its import makes the dialect known)
from jax._src.mesh import AbstractDevice
from jax.sharding import AbstractMesh, use_abstract_mesh
from jaxlib.mlir import ir
from jaxlib.triton import dialect

from bench.ahead_of_time.compiled import CompiledKernel
from bench.ahead_of_time.triton import Launch, compiled_ir

_DEVICES: Final = {80: "NVIDIA A100", 90: "NVIDIA H200"}
_CALL: Final = "__gpu$xla.gpu.triton"


@dataclass(frozen=True, slots=True)
class Cost:
    """What is known of one kernel's call beyond its code.

    Attributes:
        least_bytes: inputs and outputs, each once.
        trips: of the loops without constant bounds; see `moved_bytes`.
    """

    least_bytes: int
    trips: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """One call of a Pallas kernel.

    Attributes:
        ir: its module in Triton's dialect, as text.
        grid: programs along each axis.
        warps, stages: as the kernel asks for.
    """

    name: str
    ir: str
    grid: tuple[int, ...]
    warps: int
    stages: int


def compiled_kernels(
    function: Callable[..., Any],
    arguments: Sequence[jax.ShapeDtypeStruct],
    capability: int,
    *,
    case: str,
    costs: Mapping[str, Cost],
) -> list[CompiledKernel]:
    """Compile each Pallas kernel that a function calls, in the order of the calls.

    Args:
        costs: of the kernels by name, all of them.
    """
    kernels = lowered_kernels(function, arguments, capability)
    names = {kernel.name for kernel in kernels}
    if names != costs.keys():
        raise ValueError(f"{case}: expected costs of {sorted(names)}, got {sorted(costs)}")
    return [
        compiled_ir(
            Launch(
                kernel=kernel.name,
                case=case,
                grid=kernel.grid,
                warps=kernel.warps,
                stages=kernel.stages,
                least_bytes=costs[kernel.name].least_bytes,
                trips=costs[kernel.name].trips,
                fused=True,
            ),
            kernel.ir,
            capability,
        )
        for kernel in kernels
    ]


def lowered_kernels(
    function: Callable[..., Any], arguments: Sequence[jax.ShapeDtypeStruct], capability: int
) -> list[LoweredKernel]:
    """The Pallas kernels that a function calls, lowered for a kind of GPU.

    Args:
        capability: 80 or 90; see `CompiledKernel`.
    """
    device = AbstractDevice(_DEVICES[capability], None, "cuda")
    with use_abstract_mesh(AbstractMesh((1,), ("devices",), abstract_device=device)):
        traced = jax.jit(function).trace(*arguments)
        with warnings.catch_warnings():
            # From 0.11 on each lowering through Triton says that Mosaic GPU will replace it.
            warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
            module = traced.lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo")
    found: list[LoweredKernel] = []

    def visit(operation: Any) -> ir.WalkResult:
        attributes = operation.attributes
        if (
            operation.name == "stablehlo.custom_call"
            and ir.StringAttr(attributes["call_target_name"]).value == _CALL
        ):
            found.append(_kernel(ir.DictAttr(attributes["mhlo.backend_config"])))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _kernel(config: ir.DictAttr) -> LoweredKernel:
    def number(name: str) -> int:
        return int(ir.IntegerAttr(config[name]).value)

    # With all of JAX's dialects: barriers are of one of them.
    context = mlir.make_ir_context()
    dialect.register_dialect(context)
    with context:
        module = ir.Module.parse(ir.StringAttr(config["ir"]).value_bytes)
    return LoweredKernel(
        name=ir.StringAttr(config["name"]).value,
        ir=str(module),
        grid=(number("grid_x"), number("grid_y"), number("grid_z")),
        warps=number("num_warps"),
        stages=number("num_stages"),
    )
