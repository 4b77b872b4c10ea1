"""Logits of a text as the engine's own steps compute them, by prefill and by decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import jax
import numpy as np
from jaxtyping import Array, Float

from bench.errors import BenchError
from pantheon.engine import placing
from pantheon.engine.config import ModelOptions
from pantheon.engine.errors import LoadFailed
from pantheon.engine.loading import load_instance
from pantheon.engine.model import Architecture, ModelConfig, Parameters, native_missing
from pantheon.engine.model.kv_cache import ModelCache, Placement
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import PREFILL_CHUNK, Capacity, Runner
from pantheon.engine.runner.compiler_options import compiler_options
from pantheon.settings import Settings

_GREEDY: Final = RowSampling(0.0, 1.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of computing that the server offers.

    Attributes:
        settings: environment variables that choose it.
    """

    name: str
    settings: Mapping[str, str]


MODES: Final = (
    Mode("default", {}),
    Mode("PANTHEON_PRECISION=float32", {"PANTHEON_PRECISION": "float32"}),
    Mode("PANTHEON_NATIVE=0", {"PANTHEON_NATIVE": "0"}),
)


class EngineLogits:
    """A model of one row, loaded as a server loads it, whose steps leave their hidden states here.

    The scores of a position come from its hidden state by the function that a step calls: a
    prefill computes those of its last position alone.
    """

    def __init__(self, model: Path, window: int, mode: Mode) -> None:
        """Load the model and compile its steps.

        Raises:
            BenchError: the model cannot be loaded, or the native kernels are not built.
        """
        config = replace(
            Settings.from_environment(mode.settings).engine_config(),
            models=(),
            # A program that tells the host what it computed must not be found by a server.
            compile_cache_dir=None,
        )
        missing = native_missing() if config.native else None
        if missing is not None:
            raise BenchError(f"{mode.name}: the native kernels are missing: {missing}")
        self._hidden: list[Float[np.ndarray, "batch time hidden"]] = []
        options = ModelOptions(path=model, ctx_cap=window, max_sessions=1, max_concurrent=1)
        try:
            with mock.patch.object(placing, "Runner", self._recorded_runner):
                self._instance = load_instance(options, config)
        except LoadFailed as error:
            raise BenchError(f"{mode.name}: {error}") from error

    def close(self) -> None:
        """Give the memory back."""
        self._instance.close()

    def prefilled(
        self, tokens: Sequence[int], wanted: range
    ) -> Float[np.ndarray, "positions vocabulary"]:
        """Scores at the positions `wanted` of a prompt."""
        hidden = np.concatenate([self._prefill(tokens, start) for start in _starts(len(tokens))])
        return self._scores(hidden[wanted.start : wanted.stop])

    def decoded(
        self, tokens: Sequence[int], wanted: range
    ) -> Float[np.ndarray, "positions vocabulary"]:
        """The same where the tokens of `wanted` are fed one by one after a prefill of the rest."""
        for start in _starts(wanted.start):
            self._prefill(tokens[: wanted.start], start)
        hidden = []
        for position in wanted:
            fed = [tokens[position]]
            self._runner.decode([0], [position], [self._pages], [_GREEDY], fed=fed).read()
            hidden.append(self._told()[0])
        return self._scores(np.concatenate(hidden))

    def _prefill(self, tokens: Sequence[int], start: int) -> np.ndarray:
        chunk = tokens[start : start + PREFILL_CHUNK]
        if start == 0:
            self._runner.start_row(0, _GREEDY)
            self._runner.load_state(0, None)
        self._runner.prefill(chunk, start, self._pages, 0).read()
        return self._told()[0, : len(chunk)]

    def _told(self) -> np.ndarray:
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        hidden = self._hidden.pop()
        assert not self._hidden, "one step leaves its hidden states once"
        return hidden

    def _scores(self, hidden: np.ndarray) -> np.ndarray:
        return np.concatenate([self._head(self._parameters, row[None]) for row in hidden])

    def _recorded_runner(
        self,
        architecture: Architecture,
        config: ModelConfig,
        parameters: Parameters,
        capacity: Capacity,
        *others: Any,
        **named: Any,
    ) -> Runner:
        """The runner that a load makes, whose steps tell their hidden states to the host."""

        def hidden_states(
            parameters: Parameters,
            config: ModelConfig,
            tokens: Array,
            placement: Placement,
            cache: ModelCache,
        ) -> Any:
            all_of_them = placement._replace(wanted=placement.live)
            hidden, cache = architecture.hidden_states(
                parameters, config, tokens, all_of_them, cache
            )
            jax.debug.callback(lambda array: self._hidden.append(np.asarray(array)), hidden)
            return hidden, cache

        def head(parameters: Parameters, hidden: Array) -> Array:
            return architecture.logits(parameters, config, hidden)

        row = np.zeros((1, config.hidden), np.float32)
        self._head = jax.jit(head).lower(parameters, row).compile(compiler_options())
        self._parameters = parameters
        self._pages = range(capacity.table_width)
        recorded = replace(architecture, hidden_states=hidden_states)
        self._runner = Runner(recorded, config, parameters, capacity, *others, **named)
        return self._runner


def _starts(tokens: int) -> range:
    return range(0, tokens, PREFILL_CHUNK)
