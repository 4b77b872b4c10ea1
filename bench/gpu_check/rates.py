"""Tokens per second of a model on the device, and whether its steps are replayed as graphs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_check.check import Check
from bench.gpu_check.models import Rows, open_model
from bench.gpu_check.target import Target


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one model.

    Attributes:
        prefill: tokens per second of a prompt.
        decode: by rows decoded at once, tokens per second of all of them.
        attention: where the attention layers ran.
        replay: whether every row and every pass gave the same tokens.
    """

    model: str
    prefill: float
    decode: dict[int, float]
    attention: dict[str, Any]
    replay: list[Check]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "model": self.model,
            "prefill_tokens_per_s": self.prefill,
            "decode_tokens_per_s": {str(rows): rate for rows, rate in self.decode.items()},
            "attention": self.attention,
            "replay": [check.record() for check in self.replay],
        }


def measure_rates(target: Target, model: Path) -> Rates:
    """Prefill a prompt in each row, and decode with 1, 2, 4 and 8 rows."""
    sizes = target.sizes
    window = sizes.prompt + sizes.tokens
    opened = open_model(model, target.device, window)
    prompt = np.random.default_rng(0).integers(0, opened.config.tokens, sizes.prompt).tolist()
    rows = Rows(opened, sizes.rows[-1], window)
    try:
        rows.prefill(prompt, 0)
        seconds = [rows.prefill(prompt, row) for row in range(sizes.rows[-1])]
        found: list[list[int]] = []
        again: list[list[int]] = []
        decode: dict[int, float] = {}
        for count in sizes.rows:
            tokens, times = _answers(rows, prompt, count, sizes.tokens)
            found += tokens
            # The first step of a size may still be recorded, and is not counted.
            decode[count] = count / statistics.median(times[1:])
            again += _answers(rows, prompt, count, sizes.tokens)[0]
        return Rates(
            model=model.stem,
            prefill=(sizes.prompt - 1) / statistics.median(seconds),
            decode=decode,
            attention=_attention(rows),
            replay=[
                Check("tokens of every row, in every number of rows", _differing(found), 0),
                Check("tokens of a second pass", _differing([found[0], *again]), 0),
            ],
        )
    finally:
        rows.close()


def _attention(rows: Rows) -> dict[str, Any]:
    status = rows.runner.attention.status()
    return {"ondie": status.ondie, "host": status.host, "reasons": dict(status.reasons)}


def _answers(
    rows: Rows, prompt: list[int], count: int, tokens: int
) -> tuple[list[list[int]], list[float]]:
    """Continuations of so many rows from the prompt on, and the seconds of each step."""
    for row in range(count):
        rows.prefill(prompt, row)
    return rows.decode(prompt, count, tokens)


def _differing(found: list[list[int]]) -> float:
    """The share of tokens that are not those of the first."""
    return float(np.mean(np.asarray(found) != np.asarray(found[0])))
