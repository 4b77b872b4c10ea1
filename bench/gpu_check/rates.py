"""Tokens per second of a model on the device, and equal tokens however its steps run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_check.check import Check
from bench.gpu_check.models import Opened, Rows, open_model
from bench.gpu_check.target import Target
from pantheon.engine.residency import AttentionStatus, GraphStatus


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one model.

    Attributes:
        prefill: tokens per second of a prompt.
        decode: by rows decoded at once, tokens per second of all of them.
        attention, graphs: what ran of its fast paths; no graphs on a CPU.
        replay: whether all ways of running its steps gave the same tokens, by what ran.
    """

    model: str
    prefill: float
    decode: dict[int, float]
    attention: AttentionStatus
    graphs: GraphStatus | None
    replay: list[Check]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "model": self.model,
            "prefill_tokens_per_s": self.prefill,
            "decode_tokens_per_s": {str(rows): rate for rows, rate in self.decode.items()},
            "attention": asdict(self.attention),
            "graphs": None if self.graphs is None else asdict(self.graphs.counts),
            "replay": [check.record() for check in self.replay],
        }


def measure_rates(target: Target, model: Path) -> Rates:
    """Prefill a prompt in each row, and decode with 1, 2, 4 and 8 rows."""
    sizes = target.sizes
    opened = open_model(model, target.device, sizes.prompt + sizes.tokens)
    prompt = np.random.default_rng(0).integers(0, opened.config.tokens, sizes.prompt).tolist()
    rows = Rows(opened, sizes.rows[-1], sizes.prompt + sizes.tokens)
    rows.prefill(prompt, 0)
    seconds = [rows.prefill(prompt, row) for row in range(sizes.rows[-1])]
    found: list[list[int]] = []
    again: list[list[int]] = []
    decode: dict[int, float] = {}
    for count in sizes.rows:
        tokens, times = rows.answers(prompt, count, sizes.tokens)
        found += tokens
        # The first step of a size may still be recorded, and is not counted.
        decode[count] = count / statistics.median(times[1:])
        again += rows.answers(prompt, count, sizes.tokens)[0]
    graphs = None if rows.runner.graphs is None else rows.runner.graphs.status()
    return Rates(
        model=model.stem,
        prefill=(sizes.prompt - 1) / statistics.median(seconds),
        decode=decode,
        attention=rows.runner.attention.status(),
        graphs=graphs,
        replay=[
            _equal("every row, in every number of rows", found[0], found),
            _equal("a second pass", found[0], again),
            *_other_ways(target, opened, prompt, found[0]),
            *_live(graphs),
        ],
    )


def _other_ways(
    target: Target, opened: Opened, prompt: list[int], expected: list[int]
) -> Iterator[Check]:
    """Steps that are launched kernel by kernel, and pages in host memory."""
    rows, count = target.sizes.rows[-1], target.sizes.tokens
    window = len(prompt) + count
    plain = Rows(opened, rows, window, replayed=False)
    yield _equal("steps without graphs", expected, plain.answers(prompt, rows, count)[0])
    on_host = Rows(opened, rows, window, on_host=True)
    yield _equal("pages in host memory", expected, on_host.answers(prompt, rows, count)[0])
    status = on_host.runner.attention.status()
    yield Check("layers on the die that has no room", status.ondie, 0)


def _live(graphs: GraphStatus | None) -> Iterator[Check]:
    """What a device with graphs does not run as such."""
    if graphs is not None:
        yield Check("layers without a live graph", graphs.counts.total - graphs.counts.live, 0)


def _equal(what: str, expected: list[int], found: list[list[int]]) -> Check:
    """The share of tokens that are not those expected of each row."""
    differing = float(np.mean(np.asarray(found) != np.asarray(expected)))
    return Check(f"tokens of {what}", differing, 0)
