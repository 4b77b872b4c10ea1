"""The compiled steps of one runner: found where an earlier start left them, compiled otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax

from pantheon.engine.programs import ProgramStore, without_cache_of_jax
from pantheon.engine.residency import Backoff, CapturedStep, CaptureFailed, Executable
from pantheon.engine.runner.attention_pages import HOST_MEMORY
from pantheon.engine.runner.compiler_options import compiler_options
from pantheon.engine.runner.graphs import (
    CapturedProgram,
    Graphs,
    read_layers,
    written_layers,
)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """A step to compile.

    Attributes:
        function: pure; its first argument is the device state.
        donates: whether the state is given over to it.
        arguments: what it is called with; only shapes and dtypes matter.
        needed_first: whether an answer begins with it. The others may still be on their way from
            the file when the first request comes.
        replayed: whether it is run as graphs where the platform has them.
        results: layouts of what it gives, over the dies; None on one device.
    """

    name: str
    function: Callable[..., Any]
    donates: bool
    arguments: tuple[Any, ...]
    needed_first: bool = False
    replayed: bool = False
    results: Any = None


class StepPrograms:
    """Compiled steps by name. Made and called by one thread."""

    def __init__(
        self,
        scope: str,
        store: ProgramStore | None,
        *,
        elsewhere: jax.sharding.Sharding | None = None,
        graphs: Graphs | None = None,
    ) -> None:
        """No step is compiled yet.

        Args:
            scope: what the functions depend on beside their code and their arguments.
            store: where programs outlive the process; None compiles all of them.
            elsewhere: for steps over dies the layout of arguments that come from the host.
            graphs: how steps are captured; None where there are no graphs.
        """
        self._elsewhere = elsewhere
        self._scope = scope
        self._store = store
        self._graphs = graphs
        self._programs: dict[str, _Program] = {}
        self._captures: dict[str, _Capture] = {}
        self.captured: dict[str, CapturedStep] = {}
        """Steps that run as graphs where that works, by name."""

    def __getitem__(self, name: str) -> Executable:
        """The step of a name, to be called."""
        return self.captured.get(name) or self._programs[name].ready()

    def compiled(self, name: str) -> jax.stages.Compiled:
        """The program of a step, without graphs."""
        return self._programs[name].ready()

    def compile(self, steps: Sequence[Step], progress: Callable[[str], None]) -> None:
        """Load or compile all steps. Those that are loaded and not needed first load on."""
        programs = {step.name: self._program(step) for step in steps}
        for done, step in enumerate(steps, start=1):
            program, began = programs[step.name], time.monotonic()
            later = program.is_coming and not step.needed_first
            what = "loading" if later else program.finish()
            took = time.monotonic() - began
            progress(f"{what} {done}/{len(steps)}: {step.name} ({took:.1f} s)")
            if self._graphs is not None and step.replayed:
                self._capture(step, program, self._graphs, progress)
        self._programs = programs

    def _program(self, step: Step) -> _Program:
        options = compiler_options()
        if self._graphs is not None and step.replayed:
            options |= self._graphs.plain_options
        return _Program(step, self._scope, self._store, self._elsewhere, options)

    def _capture(
        self, step: Step, program: _Program, graphs: Graphs, progress: Callable[[str], None]
    ) -> None:
        """Compile a step with graphs too, so that nothing is compiled between requests."""
        began = time.monotonic()
        key = None
        if self._store is not None:
            options = str(sorted(graphs.options.items()))
            key = self._store.key(self._scope, step.name, options, *_signature(program.shapes))
        capture = _Capture(program, graphs, self._store, key)
        what = capture.prepare()
        progress(f"{what}: {step.name} as graphs ({time.monotonic() - began:.1f} s)")
        program.forget_lowered()
        self._captures[step.name] = capture
        self.captured[step.name] = CapturedStep(
            step.name, program.run, capture, Backoff(graphs.clock)
        )

    @property
    def keys(self) -> list[str]:
        """Keys of the programs in the order of their steps; none without a store."""
        made: list[_Program | _Capture] = [*self._programs.values(), *self._captures.values()]
        return [program.key for program in made if program.key is not None]


class _Program:
    """One step on its way from a description to something that can be called."""

    def __init__(
        self,
        step: Step,
        scope: str,
        store: ProgramStore | None,
        elsewhere: jax.sharding.Sharding | None,
        options: Mapping[str, str | bool],
    ) -> None:
        self._options = dict(options)
        self._name = step.name
        # Only shapes are kept: a step may take gigabytes.
        self.shapes = jax.tree.map(partial(_shape, elsewhere), step.arguments)
        layouts = {} if step.results is None else {"out_shardings": step.results}
        self._jitted = jax.jit(step.function, donate_argnums=0 if step.donates else (), **layouts)
        self._store = store
        self._lowered: jax.stages.Lowered | None = None
        self._coming: Future[jax.stages.Compiled | None] | None = None
        self._compiled: jax.stages.Compiled | None = None
        self.key: str | None = None
        if store is not None:
            chosen = str(sorted(self._options.items()))
            self.key = store.key(
                scope, step.name, str(step.donates), chosen, *_signature(self.shapes)
            )
            self._coming = store.find(self.key)

    @property
    def is_coming(self) -> bool:
        """Whether the program is being loaded."""
        return self._coming is not None

    def ready(self) -> jax.stages.Compiled:
        """The compiled step, awaited where it is not loaded yet."""
        if self._compiled is None:
            began = time.monotonic()
            what = self.finish()
            took = time.monotonic() - began
            _log.info("%s at its first use: %s (%.1f s)", what, self._name, took)
            return self.ready()
        return self._compiled

    def run(self, *arguments: Any) -> Any:
        """Dispatch the step."""
        return self.ready()(*arguments)

    def lowered(self) -> jax.stages.Lowered:
        """The traced step, kept until `forget_lowered`."""
        if self._lowered is None:
            self._lowered = self._jitted.lower(*self.shapes)
        return self._lowered

    def forget_lowered(self) -> None:
        """Let go of what compiling needs."""
        self._lowered = None

    def finish(self) -> str:
        """Wait for the program or compile it; which of both, in a word."""
        if self._coming is not None:
            self._compiled = self._coming.result()
            self._coming = None
        if self._compiled is not None:
            return "loaded"
        lowered = self.lowered()
        if self._store is None or self.key is None:
            self._compiled = lowered.compile(self._options)
        else:
            with without_cache_of_jax():
                self._compiled = lowered.compile(self._options)
            self._store.keep(self.key, self._compiled)
        return "compiled"


class _Capture:
    """Makes the captured form of one step, ahead of its first call where it can."""

    def __init__(
        self, program: _Program, graphs: Graphs, store: ProgramStore | None, key: str | None
    ) -> None:
        self._program = program
        self._graphs = graphs
        self._store = store
        self.key = key
        self._captured: CapturedProgram | None = None
        self._failure: CaptureFailed | None = None

    def __call__(self) -> CapturedProgram:
        """The captured step, compiled now where it was not.

        Raises:
            CaptureFailed: it could not be.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._captured is None:
            self._captured = self._compile()
            self._program.forget_lowered()
        return self._captured

    def prepare(self) -> str:
        """Load it or compile it; which of both, or that it failed, in a word."""
        self._captured = self._kept()
        if self._captured is not None:
            return "loaded"
        try:
            self._captured = self._compile()
        except CaptureFailed as error:
            # Told when the step first runs: that is an attempt, of which there are a few.
            self._failure = error
            return "failed"
        return "compiled"

    def _kept(self) -> CapturedProgram | None:
        """What an earlier start left."""
        if self._store is None or self.key is None:
            return None
        coming = self._store.find(self.key)
        compiled = None if coming is None else coming.result()
        if compiled is None:
            return None
        return CapturedProgram(compiled, read_layers(self._store.folder.read(self._notes())))

    def _compile(self) -> CapturedProgram:
        lowered = self._program.lowered()
        if self._store is None or self.key is None:
            return self._graphs.capture(lowered)
        with without_cache_of_jax():
            captured = self._graphs.capture(lowered)
        if isinstance(captured.run, jax.stages.Compiled):
            self._store.keep(self.key, captured.run)
            self._store.folder.write(self._notes(), written_layers(captured.layers))
        return captured

    def _notes(self) -> str:
        """The file beside the program that says which of its layers are in graphs."""
        return f"layers-of-{self.key}"


def _shape(elsewhere: jax.sharding.Sharding | None, array: Any) -> jax.ShapeDtypeStruct:
    """What a program is compiled for: over dies where each array is, and of arrays in host memory
    that they are there."""
    layout = elsewhere
    if isinstance(array, jax.Array):
        on_host = array.sharding.memory_kind == HOST_MEMORY
        layout = array.sharding if on_host or elsewhere is not None else None
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=layout)  # type: ignore[no-untyped-call]


def _signature(shapes: Any) -> tuple[str, ...]:
    """All that a program depends on beside its function, its options and the environment."""
    leaves, structure = jax.tree.flatten(shapes)
    return str(structure), *map(str, leaves)
