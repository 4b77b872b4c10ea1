"""Our greedy continuations with every log-probability, by the steps that the server runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import jax
import numpy as np
from jaxtyping import Array, Float

from bench.errors import BenchError
from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model import (
    Architecture,
    ModelConfig,
    Parameters,
    WeightReader,
    architecture_of,
)
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import DECODE_BATCHES, PREFILL_CHUNK, Capacity, Runner, Sampled

_PAGE_SIZE: Final = 64
_REFUSED: Final = -1e6
"""The bias of a token that may not be chosen: below any score, and finite."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """A greedy continuation of one prompt.

    Attributes:
        tokens: those chosen, the first one after the prompt's end.
        logprobs: natural logarithms of the probabilities of every token, at the place of each of
            `tokens`; -inf for what is no token.
    """

    tokens: tuple[int, ...]
    logprobs: Float[np.ndarray, "length vocabulary"]


def continue_greedily(
    model: Path,
    prompts: Sequence[Sequence[int]],
    length: int,
    window: int,
    refused: Sequence[int],
) -> list[Continuation]:
    """Prefill each prompt in a row of its own, then decode all rows together.

    Args:
        length: tokens to choose after each prompt.
        window: the context served; it holds the longest prompt and its continuation.
        refused: ids that are never chosen; log-probabilities do not know of it.

    Raises:
        BenchError: the file cannot be read, or a score is no number.
    """
    rows = _Rows(model, window)
    try:
        bias = tuple((token, _REFUSED) for token in refused)
        return rows.run(prompts, length, RowSampling(0.0, 1.0, 0, 0, logit_bias=bias))
    finally:
        rows.close()


def config_of(model: Path) -> ModelConfig:
    """The dimensions of a model file.

    Raises:
        BenchError: the file cannot be read.
    """
    try:
        with GGUFFile(model) as file:
            return architecture_of(file).read_config(file)
    except GGUFError as error:
        raise BenchError(f"{model.name}: {error}") from error


class _Rows:
    """A runner whose steps leave their scores here as well."""

    def __init__(self, model: Path, window: int) -> None:
        try:
            with GGUFFile(model) as file:
                architecture = architecture_of(file)
                config = architecture.read_config(file).within(window)
                parameters = architecture.read_parameters(
                    WeightReader(file), config, lambda done, total: None
                )
        except GGUFError as error:
            raise BenchError(f"{model.name}: {error}") from error
        if config.context_length < window:
            raise BenchError(
                f"{model.name}: expected a context of at least {window} tokens, got "
                f"{config.context_length}"
            )
        self._name = model.name
        self._scores: list[Float[np.ndarray, "batch vocabulary"]] = []
        self._pages = -(-window // _PAGE_SIZE)
        rows = DECODE_BATCHES[-1]
        capacity = Capacity(rows, rows * self._pages, _PAGE_SIZE, window)
        self._runner = Runner(self._recorded(architecture), config, parameters, capacity)
        self._runner.compile(lambda message: None)

    def close(self) -> None:
        self._runner.close()

    def run(
        self, prompts: Sequence[Sequence[int]], length: int, sampling: RowSampling
    ) -> list[Continuation]:
        rows = range(len(prompts))
        steps = [
            [self._prefill(row, prompt, sampling)]
            for row, prompt in zip(rows, prompts, strict=True)
        ]
        for step in range(length - 1):
            positions = [len(prompt) + step for prompt in prompts]
            pages = [self._pages_of(row) for row in rows]
            sampled = self._runner.decode(rows, positions, pages, [sampling] * len(rows))
            for row, chosen in enumerate(self._chosen(sampled)):
                steps[row].append(chosen)
        return [
            Continuation(
                tuple(token for token, _ in found), np.stack([scores for _, scores in found])
            )
            for found in steps
        ]

    def _prefill(
        self, row: int, prompt: Sequence[int], sampling: RowSampling
    ) -> tuple[int, Float[np.ndarray, " vocabulary"]]:
        self._runner.start_row(row, sampling)
        self._runner.load_state(row, None)
        pages, last = self._pages_of(row), len(prompt) - 1
        for start in range(0, last, PREFILL_CHUNK):
            chunk = prompt[start : min(start + PREFILL_CHUNK, last)]
            self._runner.prefill(chunk, start, pages, row)
        sampled = self._runner.decode([row], [last], [pages], [sampling], fed=[prompt[-1]])
        return self._chosen(sampled)[0]

    def _pages_of(self, row: int) -> range:
        return range(row * self._pages, (row + 1) * self._pages)

    def _chosen(self, sampled: Sampled) -> list[tuple[int, Float[np.ndarray, " vocabulary"]]]:
        tokens = sampled.read()
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        scores = self._scores.pop().astype(np.float64)
        assert not self._scores, "one step leaves its scores once"
        if not all(token.finite for token in tokens):
            raise BenchError(f"{self._name}: a step gave scores that are no numbers")
        return [
            (token.id, row - np.logaddexp.reduce(row))
            for token, row in zip(tokens, scores, strict=False)
        ]

    def _recorded(self, architecture: Architecture) -> Architecture:
        """The same architecture, whose scores are told to the host before they are used."""

        def logits(
            parameters: Parameters, config: ModelConfig, hidden: Float[Array, "batch hidden"]
        ) -> Float[Array, "batch vocabulary"]:
            scores = architecture.logits(parameters, config, hidden)
            jax.debug.callback(lambda array: self._scores.append(np.asarray(array)), scores)
            return scores

        return replace(architecture, logits=logits)
