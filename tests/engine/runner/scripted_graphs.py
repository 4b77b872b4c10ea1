"""Captures decode steps on a CPU, or fails to, by a script: every outcome that CUDA may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import jax
from jax.errors import JaxRuntimeError

from pantheon.engine.residency import CapturedLayers, CaptureFailed, Executable
from pantheon.engine.runner.graphs import CapturedProgram


class ScriptedGraphs:
    """Each attempt of the script is `compile` (it cannot be compiled), `record` (the device cannot
    record it), `lose` (likewise, and the state is gone), or `work`; all after the last work.

    Attributes:
        now: what its clock shows.
        replayed: steps that ran captured.
    """

    plain_options: Mapping[str, str] = MappingProxyType({})
    options: Mapping[str, str] = MappingProxyType({})

    def __init__(self, layers: CapturedLayers | None, script: Iterable[str] = ()) -> None:
        """Say of what is captured that it has these layers."""
        self._layers = layers
        self._script = list(script)
        self.now = 0.0
        self.replayed = 0

    def clock(self) -> float:
        return self.now

    def capture(self, lowered: jax.stages.Lowered) -> CapturedProgram:
        if self._script[:1] == ["compile"]:
            self._script.pop(0)
            raise CaptureFailed("no memory for a graph")
        return CapturedProgram(self._guarded(lowered.compile()), self._layers)

    def _guarded(self, compiled: Executable) -> Executable:
        def run(state: Any, *arguments: Any) -> Any:
            outcome = self._script.pop(0) if self._script else "work"
            if outcome == "lose":
                for leaf in jax.tree.leaves(state):
                    leaf.delete()
            if outcome != "work":
                raise JaxRuntimeError("INTERNAL: Failed to instantiate CUDA graph: out of memory")
            self.replayed += 1
            return compiled(state, *arguments)

        return run
