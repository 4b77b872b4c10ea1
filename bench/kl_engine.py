"""Logits of a text as the engine's own steps compute them, by prefill and by decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jaxtyping import Array, Float

from bench.errors import BenchError
from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model import Architecture, WeightReader, architecture_of, native_missing
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import PREFILL_CHUNK, Capacity, Runner
from pantheon.engine.runner.compiler_options import compiler_options

_PAGE_SIZE: Final = 64
_GREEDY: Final = RowSampling(0.0, 1.0, 0, 0)
_HEAD_ROWS: Final = 8
"""Positions whose scores are computed at once after a prefill."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of computing that the server offers.

    Attributes:
        setting: what chooses it.
        native: whether the native kernels multiply.
    """

    name: str
    setting: str
    native: bool


MODES: Final = (
    Mode("native float32", "the default", True),
    Mode("XLA float32", "PANTHEON_NATIVE=0", False),
)


class EngineLogits:
    """A model of one row, whose steps leave their hidden states here as well.

    The scores of a prefill's positions, of which a server needs one, come from its hidden states
    by the same function that its step calls.
    """

    def __init__(self, model: Path, window: int, mode: Mode) -> None:
        """Load the model and compile its steps.

        Raises:
            BenchError: the file cannot be read, or the mode needs kernels that are not built.
        """
        missing = native_missing() if mode.native else None
        if missing is not None:
            raise BenchError(f"{mode.name}: the native kernels are missing: {missing}")
        try:
            with GGUFFile(model) as file:
                architecture = architecture_of(file)
                self._config = architecture.read_config(file).within(window)
                self._parameters = architecture.read_parameters(
                    WeightReader(file, native=mode.native), self._config, lambda done, total: None
                )
        except GGUFError as error:
            raise BenchError(f"{model.name}: {error}") from error
        self._hidden: list[Float[np.ndarray, "batch time hidden"]] = []
        self._pages = range(-(-window // _PAGE_SIZE))
        self._runner = Runner(
            self._recorded(architecture),
            self._config,
            self._parameters,
            Capacity(1, len(self._pages), _PAGE_SIZE, window),
        )
        self._runner.compile(lambda message: None)
        self._heads = {rows: self._head(architecture, rows) for rows in (1, _HEAD_ROWS)}

    def close(self) -> None:
        """Give the memory back."""
        self._runner.close()

    def prefilled(
        self, tokens: Sequence[int], wanted: range
    ) -> Float[np.ndarray, "positions vocabulary"]:
        """Scores at the positions `wanted` of a prompt."""
        hidden = np.concatenate([self._prefill(tokens, start) for start in _starts(len(tokens))])
        return self._scores(hidden[wanted.start : wanted.stop], _HEAD_ROWS)

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
        return self._scores(np.concatenate(hidden), 1)

    def _prefill(self, tokens: Sequence[int], start: int) -> np.ndarray:
        chunk = tokens[start : start + PREFILL_CHUNK]
        if start == 0:
            self._runner.start_row(0, _GREEDY)
            self._runner.load_state(0, None)
        self._runner.prefill(chunk, start, self._pages, 0, _GREEDY).read()
        return self._told()[0, : len(chunk)]

    def _told(self) -> np.ndarray:
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        hidden = self._hidden.pop()
        assert not self._hidden, "one step leaves its hidden states once"
        return hidden

    def _scores(self, hidden: np.ndarray, rows: int) -> np.ndarray:
        found = []
        for start in range(0, len(hidden), rows):
            part = hidden[start : start + rows]
            padded = np.zeros((rows, hidden.shape[1]), hidden.dtype)
            padded[: len(part)] = part
            found.append(np.asarray(self._heads[rows](self._parameters, padded))[: len(part)])
        return np.concatenate(found)

    def _head(self, architecture: Architecture, rows: int) -> Any:
        def head(parameters: Any, hidden: Array) -> Array:
            return architecture.logits(parameters, self._config, hidden)

        hidden = np.zeros((rows, self._config.hidden), np.float32)
        return jax.jit(head).lower(self._parameters, hidden).compile(compiler_options())

    def _recorded(self, architecture: Architecture) -> Architecture:
        """The same architecture, whose hidden states are told to the host."""

        def hidden_states(*arguments: Any) -> Any:
            hidden, cache = architecture.hidden_states(*arguments)
            jax.debug.callback(lambda array: self._hidden.append(np.asarray(array)), hidden)
            return hidden, cache

        return replace(architecture, hidden_states=hidden_states)


def _starts(tokens: int) -> range:
    return range(0, tokens, PREFILL_CHUNK)
