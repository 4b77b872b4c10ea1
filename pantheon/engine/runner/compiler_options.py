"""How steps are compiled beside models that answer."""

from __future__ import annotations

import os

import jax


def compiler_options() -> dict[str, str | bool]:
    """Options for every compiled step.

    XLA's CPU client compiles the parts of a program on the same threads, one a core, on which it
    runs the steps of all models. Left to itself it cuts a program into more parts than there are
    cores, and a step that is dispatched meanwhile waits until one of them is done: measured on 2
    cores, a stream beside a load keeps 0.36 of its rate with gaps of 1.5 s; with one part 0.59
    and 0.6 s, and the load itself takes half the time. Alone it takes a quarter longer.
    The option is the same with and without other models: it is part of the compile cache's key.
    """
    if jax.default_backend() != "cpu":
        return {}
    cores = len(os.sched_getaffinity(0))
    return {"xla_cpu_parallel_codegen_split_count": str(max(cores // 2, 1))}
