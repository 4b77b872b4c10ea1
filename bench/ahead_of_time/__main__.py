"""`python -m bench.ahead_of_time`: GPU kernels for A100 and H200, and whole steps for one H200 or
several, compiled on a machine without a GPU, as tables.

With `--all-steps` only steps, but all of them, of models with all their layers. What it prints is
kept in bench/results. It ends with 1 where a kernel spills, a step does not fit, or layers of a
decode step would not be replayed as graphs.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import metadata
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from bench import machine
from bench.ahead_of_time import attention_cases, products, recurrent_cases, target
from bench.ahead_of_time.compiled import compiled_table, spilling
from bench.ahead_of_time.compiled_steps import WholeStep, faults, step_name, steps_table
from bench.ahead_of_time.step_models import (
    DENSE,
    HYBRID,
    HYBRID_MIXTURE,
    MIXTURE,
    MODELS,
)
from bench.ahead_of_time.whole_steps import LARGEST_DECODE, SMALLEST_DECODE, STEPS, compiled_step
from bench.results import ROOT, keep

_CAPABILITIES: Final = (80, 90)
_FEW_LAYERS: Final = 4
"""One that attends among three with states, and all types of matrices."""

_OVER_DIES: Final = ((DENSE, 8), (HYBRID, 2), (MIXTURE, 2), (HYBRID_MIXTURE, 8))

_Result = TypeVar("_Result")


def main() -> int:
    """Compile, print, keep.

    Returns:
        0; 1 when something is not as it must be.
    """
    parser = ArgumentParser("python -m bench.ahead_of_time")
    parser.add_argument(
        "--all-steps",
        nargs="?",
        const=".",
        metavar="PATTERN",
        help="every step of whole models, or those in whose name a regular expression is found, "
        "such as 'Qwen3-8B.*decode 8'",
    )
    pattern = parser.parse_args().all_steps
    # Not for the kernels' compiler alone: what is spawned hands it on to XLA.
    with TemporaryDirectory() as folder:
        target.use_tools(Path(folder))
        if pattern is None:
            found = [*_kernels(), *_steps(_few_steps(), "few")]
        else:
            found = _steps(_every_step(pattern), "all")
    for fault in found:
        print(f"must not be: {fault}", file=sys.stderr)
    return 1 if found else 0


def _kernels() -> list[str]:
    """What must not be of the kernels."""
    start = time.perf_counter()
    jobs = [*attention_cases.jobs(), *products.jobs(), *recurrent_cases.jobs()]
    work = [partial(job, capability) for job, capability in product(jobs, _CAPABILITIES)]
    found = [kernel for kernels in _compiled(work) for kernel in kernels]
    print(compiled_table(found))
    print(f"\n{len(found)} compiled in {time.perf_counter() - start:.0f} s; none has run")
    record = _machine()
    record["compiled"] = [one.record() for one in found]
    keep("kernels", record)
    return [f"spills: {one}" for one in spilling(found)]


def _steps(work: Sequence[Callable[[], WholeStep]], which: str) -> list[str]:
    """What must not be of whole steps."""
    start = time.perf_counter()
    found = _compiled(work)
    print(steps_table(found))
    print(f"\n{len(found)} compiled in {time.perf_counter() - start:.0f} s; none has run")
    record = _machine()
    record["steps"] = [one.record() for one in found]
    keep(f"whole_steps_{which}", record)
    return faults(found)


def _few_steps() -> list[Callable[[], WholeStep]]:
    dense, hybrid, mixture = (model.first_layers(_FEW_LAYERS) for model in (DENSE, HYBRID, MIXTURE))
    return [
        *(partial(compiled_step, model, LARGEST_DECODE) for model in (dense, hybrid, mixture)),
        partial(compiled_step, dense, LARGEST_DECODE, dies=2),
        # Which fills its batch up where a dense one does not.
        partial(compiled_step, hybrid, SMALLEST_DECODE),
    ]


def _every_step(pattern: str) -> list[Callable[[], WholeStep]]:
    steps = [
        *((model, step, 1) for model, step in product(MODELS, STEPS)),
        *((model, LARGEST_DECODE, dies) for model, dies in _OVER_DIES),
    ]
    return [
        partial(compiled_step, model, step, dies)
        for model, step, dies in steps
        if re.search(pattern, step_name(model.name, step, dies))
    ]


def _compiled(work: Sequence[Callable[[], _Result]]) -> list[_Result]:
    # Not forked: JAX has threads.
    context = multiprocessing.get_context("spawn")
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return [one.result() for one in [pool.submit(job) for job in work]]


def _machine() -> dict[str, object]:
    record = machine.describe(ROOT)
    record["versions"]["triton"] = metadata.version("triton")
    return record


if __name__ == "__main__":
    sys.exit(main())
