"""The compiled steps of one runner: found where an earlier start left them, compiled otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax

from pantheon.engine.programs import ProgramStore, without_cache_of_jax
from pantheon.engine.runner.compiler_options import compiler_options

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
        results: layouts of what it gives, over the dies; None on one device.
    """

    name: str
    function: Callable[..., Any]
    donates: bool
    arguments: tuple[Any, ...]
    needed_first: bool = False
    results: Any = None


class StepPrograms:
    """Compiled steps by name. Made and called by one thread."""

    def __init__(
        self,
        scope: str,
        store: ProgramStore | None,
        elsewhere: jax.sharding.Sharding | None = None,
    ) -> None:
        """No step is compiled yet.

        Args:
            scope: what the functions depend on beside their code and their arguments.
            store: where programs outlive the process; None compiles all of them.
            elsewhere: for steps over dies the layout of arguments that come from the host.
        """
        self._elsewhere = elsewhere
        self._scope = scope
        self._store = store
        self._programs: dict[str, _Program] = {}

    def __getitem__(self, name: str) -> jax.stages.Compiled:
        """The step of a name, to be called."""
        return self._programs[name].ready()

    def compile(self, steps: Sequence[Step], progress: Callable[[str], None]) -> None:
        """Load or compile all steps. Those that are loaded and not needed first load on."""
        programs = {
            step.name: _Program(step, self._scope, self._store, self._elsewhere) for step in steps
        }
        for done, step in enumerate(steps, start=1):
            program, began = programs[step.name], time.monotonic()
            later = program.is_coming and not step.needed_first
            what = "loading" if later else program.finish()
            took = time.monotonic() - began
            progress(f"{what} {done}/{len(steps)}: {step.name} ({took:.1f} s)")
        self._programs = programs

    @property
    def keys(self) -> list[str]:
        """Keys of the programs in the order of their steps; none without a store."""
        return [program.key for program in self._programs.values() if program.key is not None]


class _Program:
    """One step on its way from a description to something that can be called."""

    def __init__(
        self,
        step: Step,
        scope: str,
        store: ProgramStore | None,
        elsewhere: jax.sharding.Sharding | None,
    ) -> None:
        self._name = step.name
        # Only shapes are kept: a step may take gigabytes.
        self._shapes = jax.tree.map(partial(_shape, elsewhere), step.arguments)
        layouts = {} if step.results is None else {"out_shardings": step.results}
        self._jitted = jax.jit(step.function, donate_argnums=0 if step.donates else (), **layouts)
        self._store = store
        self._coming: Future[jax.stages.Compiled | None] | None = None
        self._compiled: jax.stages.Compiled | None = None
        self.key: str | None = None
        if store is not None:
            self.key = store.key(scope, step.name, str(step.donates), *_signature(self._shapes))
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

    def finish(self) -> str:
        """Wait for the program or compile it; which of both, in a word."""
        if self._coming is not None:
            self._compiled = self._coming.result()
            self._coming = None
        if self._compiled is not None:
            return "loaded"
        lowered = self._jitted.lower(*self._shapes)
        if self._store is None or self.key is None:
            self._compiled = lowered.compile(compiler_options())
        else:
            with without_cache_of_jax():
                self._compiled = lowered.compile(compiler_options())
            self._store.keep(self.key, self._compiled)
        return "compiled"


def _shape(elsewhere: jax.sharding.Sharding | None, array: Any) -> jax.ShapeDtypeStruct:
    layout = elsewhere
    if elsewhere is not None and isinstance(array, jax.Array):
        layout = array.sharding
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=layout)  # type: ignore[no-untyped-call]


def _signature(shapes: Any) -> tuple[str, ...]:
    """All that a program depends on beside its function and the environment."""
    leaves, structure = jax.tree.flatten(shapes)
    return str(sorted(compiler_options().items())), str(structure), *map(str, leaves)
