"""Each kernel beside its reference, over the cases that its tests use too."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax

from bench.comparison import Comparison
from pantheon.engine.kernels.paged_attention import paged_attention
from pantheon.engine.kernels.paged_attention.cases import CASES, Case
from pantheon.engine.kernels.paged_attention.reference import reference

_SAMPLE_SECONDS: Final = 0.1
_MAX_CALLS: Final = 10_000


def compare_kernels(rounds: int) -> tuple[Comparison, ...]:
    """Calls per second of `paged_attention` and of its reference, in turns."""
    return tuple(_compare(case, rounds) for case in CASES)


def _compare(case: Case, rounds: int) -> Comparison:
    arguments = jax.device_put(case.arguments())
    scale = case.head_dim**-0.5
    implementations = [jax.jit(partial(one, scale=scale)) for one in (paged_attention, reference)]
    calls = [_calls(one, arguments) for one in implementations]
    samples = [
        tuple(
            _rate(one, arguments, count) for one, count in zip(implementations, calls, strict=True)
        )
        for _ in range(rounds)
    ]
    ours, theirs = zip(*samples, strict=True)
    return Comparison(f"paged_attention: {case.name}", ours, theirs)


def _calls(implementation: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    """How many calls fill a sample; compiles on the way."""
    implementation(*arguments).block_until_ready()
    return max(1, min(_MAX_CALLS, int(_SAMPLE_SECONDS * _rate(implementation, arguments, 5))))


def _rate(implementation: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        # Waited for each time, as a step waits for it: calls must not overlap.
        implementation(*arguments).block_until_ready()
    return calls / (time.perf_counter() - start)
