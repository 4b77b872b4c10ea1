"""`python -m bench.ahead_of_time`: every GPU kernel compiled for A100 and H200, as a table.

What it prints is kept in bench/results/kernels.jsonl. It ends with 1 where a kernel spills.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from itertools import product
from typing import Final

from bench import machine
from bench.ahead_of_time import attention_cases, products, recurrent_cases
from bench.ahead_of_time.compiled import CompiledKernel, compiled_table, spilling
from bench.ahead_of_time.job import Job
from bench.results import ROOT, keep

_CAPABILITIES: Final = (80, 90)


def main() -> int:
    """Compile, print, keep.

    Returns:
        0; 1 when a kernel does not fit into the registers.
    """
    start = time.perf_counter()
    jobs = [*attention_cases.jobs(), *products.jobs(), *recurrent_cases.jobs()]
    found = _compile(list(product(jobs, _CAPABILITIES)))
    print(compiled_table(found))
    print(f"\n{len(found)} compiled in {time.perf_counter() - start:.0f} s; none has run")
    record = machine.describe(ROOT)
    record["versions"]["triton"] = metadata.version("triton")
    record["compiled"] = [one.record() for one in found]
    keep("kernels", record)
    spilled = spilling(found)
    for one in spilled:
        print(f"spills: {one}", file=sys.stderr)
    return 1 if spilled else 0


def _compile(work: list[tuple[Job, int]]) -> list[CompiledKernel]:
    # Not forked: JAX has threads.
    context = multiprocessing.get_context("spawn")
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = [pool.submit(job, capability) for job, capability in work]
        return [kernel for one in running for kernel in one.result()]


if __name__ == "__main__":
    sys.exit(main())
