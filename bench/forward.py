"""A model's decode steps in a loop: no server, no scheduler, no requests, no text."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import (
    Implementation,
    WeightReader,
    architecture_of,
    native_missing,
)
from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import DECODE_BATCHES, Capacity, Runner
from pantheon.engine.runner.sampled import Sampled

_PAGE_SIZE: Final = 64
_POSITION: Final = 127
"""Where tokens are decoded, about as in the race."""

_LEAST_SECONDS: Final = 1.0
_LEAST_STEPS: Final = 20
_GREEDY: Final = RowSampling(0.0, 1.0, 0, 0)


class DecodeSteps:
    """Greedy steps of all rows, each dispatched before the tokens of the one before are read.

    They are computed as a server of default settings computes them.
    """

    def __init__(self, model: Path) -> None:
        """Load the model and compile its steps."""
        native = native_missing() is None
        implementation = Implementation.NATIVE if native else Implementation.XLA
        pages = _POSITION // _PAGE_SIZE + 1
        window, rows = pages * _PAGE_SIZE, DECODE_BATCHES[-1]
        with GGUFFile(model) as file:
            architecture = architecture_of(file)
            config = replace(
                architecture.read_config(file).within(window),
                implementation=implementation,
                kv_dtype=Precision.DEFAULT.kv_dtype,
            )
            parameters = architecture.read_parameters(
                WeightReader(file, implementation=implementation),
                config,
                lambda done, total: None,
            )
        self._tables = [list(range(row * pages, (row + 1) * pages)) for row in range(rows)]
        capacity = Capacity(rows, rows * pages, _PAGE_SIZE, window)
        self._runner = Runner(architecture, config, parameters, capacity)
        self._runner.compile(lambda message: None)

    def seconds(self, rows: int) -> float:
        """Median seconds of a step of so many rows."""
        times: list[float] = []
        coming = self._step(rows)
        while sum(times) < _LEAST_SECONDS or len(times) < _LEAST_STEPS:
            began = time.perf_counter()
            following = self._step(rows)
            coming.read()
            times.append(time.perf_counter() - began)
            coming = following
        coming.read()
        return statistics.median(times)

    def _step(self, rows: int) -> Sampled:
        return self._runner.decode(
            list(range(rows)), [_POSITION] * rows, self._tables[:rows], [_GREEDY] * rows
        )
