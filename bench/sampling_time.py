"""What choosing the tokens takes of a decode step."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Final

import jax
import numpy as np
from jaxtyping import Array

from bench.parity_engine import config_of
from pantheon.engine.model import Implementation, native_missing
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.adjustment import RowHistory, batch_adjustments
from pantheon.engine.runner.compiler_options import compiler_options
from pantheon.engine.runner.sampling import batch_rows
from pantheon.engine.runner.steps import ChoiceBatch, Chosen, choose

_RUNS: Final = 50
_GREEDY: Final = RowSampling(0.0, 1.0, 0, 0)


def sampling_seconds(model: Path, rows: int) -> float:
    """Median seconds of choosing greedily from the scores of a step, compiled alone."""
    config = config_of(model)
    native = native_missing() is None
    implementation = Implementation.NATIVE if native else Implementation.XLA
    every = [_GREEDY] * rows
    choice = ChoiceBatch(
        batch_rows(every, [0] * rows, rows, config.tokens),
        batch_adjustments(every, [None] * rows, rows, config.vocabulary),
        adjusted=np.bool_(False),  # type: ignore[arg-type]
        logprobs_wanted=np.bool_(False),  # type: ignore[arg-type]
    )
    shape = (rows, config.vocabulary)
    scores = jax.device_put(np.random.default_rng(0).standard_normal(shape, np.float32))
    counts = jax.device_put(np.zeros(shape, np.int32))
    bias = jax.device_put(np.zeros(shape, np.float32))

    def chosen(scores: Array, counts: Array, bias: Array, choice: ChoiceBatch) -> Chosen:
        return choose(
            scores, lambda: RowHistory(counts, bias), choice, implementation=implementation
        )

    compiled = jax.jit(chosen).lower(scores, counts, bias, choice).compile(compiler_options())
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        jax.block_until_ready(compiled(scores, counts, bias, choice))  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - began)
    return median(times)
