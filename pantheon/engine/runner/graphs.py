"""Decode steps compiled so that the device replays them as graphs, on CUDA."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

import jax
from jax.errors import JaxRuntimeError

from pantheon.engine.model import ModelConfig
from pantheon.engine.residency import (
    CapturedLayers,
    CapturedStep,
    CaptureFailed,
    Executable,
    GraphSlots,
    LayerKind,
    captured_layers,
)

_log: Final = logging.getLogger(__name__)

_RECORDED: Final = ",".join(
    (
        *("FUSION", "CUBLAS", "CUBLASLT", "CUSTOM_CALL", "CUDNN"),
        # Where the dies add up what they have, twice in each layer.
        "COLLECTIVES",
        # A kernel that writes rows of a larger batch, as the small decode steps of hybrids do.
        "DYNAMIC_SLICE_FUSION",
        # Which choosing the tokens has.
        *("CONDITIONAL", "WHILE"),
    )
)
"""Of XLA's launches all that it can record. The last four kinds it would leave to the host if it
were not told, which would wait for the device in every step."""

_OF_CAPTURE: Final = re.compile(r"(?i)command.?buffer|cuda graph|cuGraph|stream.?capture")
"""In what XLA says of a step that it could not record or replay."""

_LARGEST_TEXT: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """A captured step.

    Attributes:
        run: the executable.
        layers: which of its layers are in graphs; None where XLA does not say it.
    """

    run: Executable
    layers: CapturedLayers | None

    def __call__(self, *arguments: Any) -> Any:
        """Dispatch it.

        Raises:
            CaptureFailed: the device could not record or replay it.
        """
        try:
            return self.run(*arguments)
        except JaxRuntimeError as error:
            if not _OF_CAPTURE.search(str(error)):
                raise
            lost = any(
                isinstance(leaf, jax.Array) and leaf.is_deleted()
                for leaf in jax.tree.leaves(arguments)
            )
            raise CaptureFailed(_first_line(error), arguments_lost=lost) from error


@runtime_checkable
class Graphs(Protocol):
    """How the decode steps of a platform are captured."""

    @property
    def plain_options(self) -> Mapping[str, str]:
        """Compiler options of a step that is launched kernel by kernel."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Those of a captured step, which tell it apart from other programs."""
        ...

    def clock(self) -> float:
        """Seconds that never go back."""
        ...

    def capture(self, lowered: jax.stages.Lowered) -> CapturedProgram:
        """Compile a step with graphs.

        Raises:
            CaptureFailed: it cannot be.
        """
        ...


class CudaGraphs:
    """Command buffers of XLA, which become CUDA graphs when they run for the first time."""

    plain_options: Mapping[str, str] = MappingProxyType({"xla_gpu_enable_command_buffer": ""})
    options: Mapping[str, str] = MappingProxyType({"xla_gpu_enable_command_buffer": _RECORDED})

    @staticmethod
    def clock() -> float:
        """See `Graphs`."""
        return time.monotonic()

    def capture(self, lowered: jax.stages.Lowered) -> CapturedProgram:
        """See `Graphs`. What XLA says of the program goes to a folder that is removed again."""
        try:
            kept = TemporaryDirectory(prefix="pantheon-graphs-")
        except OSError as error:
            _log.warning("no folder for what XLA says of a step: %s", error.strerror)
            return CapturedProgram(self._compiled(lowered, {}), None)
        with kept as folder:
            compiled = self._compiled(lowered, {"xla_dump_to": folder})
            return CapturedProgram(compiled, dumped_layers(Path(folder), compiled))

    def _compiled(
        self, lowered: jax.stages.Lowered, more: Mapping[str, str]
    ) -> jax.stages.Compiled:
        try:
            return lowered.compile({**self.options, **more})
        except JaxRuntimeError as error:
            raise CaptureFailed(_first_line(error)) from error


def graphs_of(platform: str) -> Graphs | None:
    """How decode steps are captured on a platform; None where there are no graphs.

    Args:
        platform: see `pantheon.engine.model.platform_of`.
    """
    return CudaGraphs() if platform == "cuda" else None


def graph_slots(
    config: ModelConfig,
    captured: Iterable[CapturedStep],
    *,
    batched: bool,
    earlier: tuple[int, int],
) -> GraphSlots:
    """The slots of a model whose decode steps are captured.

    Args:
        batched, earlier: see `GraphSlots`.
    """
    kinds = [LayerKind.RECURRENT if one else LayerKind.ATTENTION for one in config.recurrent]
    return GraphSlots(kinds, list(captured), _layers_of, batched=batched, earlier=earlier)


def _layers_of(executable: Executable) -> CapturedLayers | None:
    return executable.layers if isinstance(executable, CapturedProgram) else None


def dumped_layers(folder: Path, compiled: jax.stages.Compiled) -> CapturedLayers | None:
    """The layers in graphs, as XLA's dump of a program tells; None where it does not."""
    sequence = _text(folder, "*.thunk_sequence_after_thunk_passes.txt")
    metadata = _text(folder, "*.thunk_metadata.txt")
    hlo = compiled.as_text()
    if sequence is None or metadata is None or hlo is None:
        _log.warning("XLA did not say what of a step it runs as graphs")
        return None
    return captured_layers(sequence, metadata, hlo)


def written_layers(layers: CapturedLayers | None) -> bytes:
    """For later starts, which load the program and see no dump of it."""
    if layers is None:
        return b"null"
    return json.dumps({"layers": sorted(layers.layers), "whole": layers.whole}).encode()


def read_layers(data: bytes | None) -> CapturedLayers | None:
    """What `written_layers` wrote; None for anything else."""
    try:
        found = json.loads(data or b"null")
    except ValueError:
        return None
    match found:
        case {"layers": [*layers], "whole": bool(whole)} if all(type(one) is int for one in layers):
            return CapturedLayers(frozenset(layers), whole)
    return None


def _text(folder: Path, pattern: str) -> str | None:
    """The one file of a name; None where there is none or more."""
    found = list(folder.glob(pattern))
    if len(found) != 1 or found[0].stat().st_size > _LARGEST_TEXT:
        return None
    return found[0].read_text(encoding="utf-8", errors="replace")


def _first_line(error: JaxRuntimeError) -> str:
    return str(error).partition("\n")[0]
