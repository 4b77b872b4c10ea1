"""What each addition to a decode step costs, as a share of the plain step."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.comparison import Comparison
from bench.tools import TOOLS
from pantheon.engine.answer import Answer
from pantheon.engine.answer_calls import AnswerCalls
from pantheon.engine.config import ToolGrammar
from pantheon.engine.constraint import Constraint, GrammarCompiler, JsonGrammars, ToolGrammars
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import WeightReader, architecture_of
from pantheon.engine.requests import ToolUse
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.token_mask import TokenMask
from pantheon.engine.tokenizer import Tokenizer, Vocabulary
from pantheon.engine.tools import dialect_for

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
    """Steps per second with penalties, log-probabilities and grammars, beside plain ones.

    Each round takes one step of every kind in turn, for one row and for eight.
    """
    bench = _Steps(model)
    kinds: dict[str, Callable[[int], float]] = {
        "penalties and bias": lambda rows: bench.step(rows, _PENALTIES),
        "20 logprobs": lambda rows: bench.step(rows, _LOGPROBS),
        "JSON grammar": lambda rows: bench.constrained_step(rows, "JSON"),
        "tool grammar": lambda rows: bench.constrained_step(rows, "call"),
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
    """Decode steps of a real model over fixed pages, and grammars for each row."""

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
        compiler = GrammarCompiler(self._tokenizer)
        self._grammars = JsonGrammars(compiler)
        self._dialect = dialect_for("bench", architecture.name, adds_bos=False)
        self._calls = ToolGrammars(compiler, self._dialect)
        self._constraints = {
            kind: [self._new_constraint(kind) for _ in range(_ROWS)] for kind in ("JSON", "call")
        }

    def step(self, rows: int, sampling: RowSampling) -> float:
        """Run one step; steps per second."""
        began = time.perf_counter()
        self._decode([sampling] * rows, [None] * rows)
        return 1 / (time.perf_counter() - began)

    def constrained_step(self, rows: int, kind: str) -> float:
        """The same with the masks of a grammar computed before and fed after it.

        Args:
            kind: `JSON` for any object, `call` for a call of one of two tools.
        """
        began = time.perf_counter()
        constraints = self._constraints[kind]
        masks = [constraint.mask() for _, constraint in constraints[:rows]]
        tokens = self._decode([_PLAIN] * rows, masks)
        over = [
            index for index, token in enumerate(tokens) if self._take(*constraints[index], token)
        ]
        seconds = time.perf_counter() - began
        for index in over:
            constraints[index] = self._new_constraint(kind)
        return 1 / seconds

    def _take(self, answer: Answer, constraint: Constraint, token: SampledToken) -> bool:
        """Take a row's token; whether its answer ends."""
        step = answer.push(token)
        constraint.accept(token.id)
        return step.finish_reason is not None or constraint.complete or constraint.dead

    def _new_constraint(self, kind: str) -> tuple[Answer, Constraint]:
        ends = self._tokenizer.vocabulary.end_ids
        calls = AnswerCalls(self._dialect.parser(TOOLS), compelled=True)
        answer = Answer(
            decoder=self._tokenizer.decoder(),
            token_bytes=self._tokenizer.token_bytes,
            stops=(),
            end_tokens=ends,
            limit=1000,
            calls=calls if kind == "call" else None,
        )
        if kind == "call":
            use = ToolUse(TOOLS, required=True)
            mode = ToolGrammar.REQUIRED
            rule = self._calls.start(use, answer, mode=mode, end_tokens=ends, think=None)
            constraint = Constraint.of(answer, calls=rule)
        else:
            constraint = Constraint.of(answer, grammar=self._grammars.start(None))
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
