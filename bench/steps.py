"""What each addition to a decode step costs, as a share of the plain step."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.comparison import Comparison
from pantheon.engine.answer import Answer
from pantheon.engine.constraint import Constraint, JsonGrammars
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import WeightReader, architecture_of
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.token_mask import TokenMask
from pantheon.engine.tokenizer import Tokenizer, Vocabulary

_ROWS: Final = 8
_PAGE_SIZE: Final = 64
_PAGES_PER_ROW: Final = 8
_POSITION: Final = 200
_PLAIN: Final = RowSampling(0.7, 0.95, 40, 1)
_PENALTIES: Final = RowSampling(
    0.7, 0.95, 40, 1, presence_penalty=1.0, frequency_penalty=1.0, logit_bias=((5, 1.0),)
)
_LOGPROBS: Final = RowSampling(0.7, 0.95, 40, 1, top_logprobs=20)


def compare_steps(model: Path, rounds: int) -> tuple[Comparison, ...]:
    """Steps per second with penalties, log-probabilities and a JSON grammar, beside plain ones.

    Each round takes one step of every kind in turn, for one row and for eight.
    """
    bench = _Steps(model)
    kinds: dict[str, Callable[[int], float]] = {
        "penalties and bias": lambda rows: bench.step(rows, _PENALTIES),
        "20 logprobs": lambda rows: bench.step(rows, _LOGPROBS),
        "JSON grammar": bench.constrained_step,
    }
    comparisons = []
    for rows in (1, _ROWS):
        plain: list[float] = []
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            plain.append(bench.step(rows, _PLAIN))
            for kind, step in kinds.items():
                found[kind].append(step(rows))
        comparisons += [
            Comparison(f"{kind}, {rows} rows", tuple(samples), tuple(plain))
            for kind, samples in found.items()
        ]
    return tuple(comparisons)


class _Steps:
    """Decode steps of a real model over fixed pages, and one grammar a row."""

    def __init__(self, model: Path) -> None:
        with GGUFFile(model) as file:
            architecture = architecture_of(file)
            config = architecture.read_config(file)
            self._tokenizer = Tokenizer(Vocabulary.from_metadata(file.metadata))
            parameters = architecture.read_parameters(
                WeightReader(file), config, lambda done, total: None
            )
        window = _PAGES_PER_ROW * _PAGE_SIZE
        capacity = Capacity(_ROWS, _ROWS * _PAGES_PER_ROW, _PAGE_SIZE, window)
        self._runner = Runner(architecture, config, parameters, capacity)
        self._runner.compile(print)
        self._grammars = JsonGrammars(self._tokenizer)
        self._constraints = [self._new_constraint() for _ in range(_ROWS)]

    def step(self, rows: int, sampling: RowSampling) -> float:
        """Run one step; steps per second."""
        began = time.perf_counter()
        self._decode([sampling] * rows, [None] * rows)
        return 1 / (time.perf_counter() - began)

    def constrained_step(self, rows: int) -> float:
        """The same with the masks of a JSON grammar computed before and fed after it."""
        began = time.perf_counter()
        masks = [constraint.mask() for _, constraint in self._constraints[:rows]]
        tokens = self._decode([_PLAIN] * rows, masks)
        for index, token in enumerate(tokens):
            self._take(index, token)
        return 1 / (time.perf_counter() - began)

    def _take(self, index: int, token: SampledToken) -> None:
        answer, constraint = self._constraints[index]
        step = answer.push(token)
        constraint.accept(token.id)
        if step.finish_reason is not None or constraint.complete or constraint.dead:
            self._constraints[index] = self._new_constraint()

    def _new_constraint(self) -> tuple[Answer, Constraint]:
        answer = Answer(
            decoder=self._tokenizer.decoder(),
            token_bytes=self._tokenizer.token_bytes,
            stops=(),
            end_tokens=self._tokenizer.vocabulary.end_ids,
            limit=1000,
        )
        constraint = Constraint.of(answer, grammar=self._grammars.start(None), budget=None)
        assert constraint is not None
        return answer, constraint

    def _decode(
        self, sampling: list[RowSampling], masks: list[TokenMask | None]
    ) -> list[SampledToken]:
        rows = len(sampling)
        pages = [
            list(range(row * _PAGES_PER_ROW, (row + 1) * _PAGES_PER_ROW)) for row in range(rows)
        ]
        return self._runner.decode(
            list(range(rows)), [_POSITION] * rows, pages, sampling, masks
        ).read()
