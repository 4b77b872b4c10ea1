"""Each kernel beside its reference, over the cases that its tests use too."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from bench.comparison import Comparison
from pantheon.engine.kernels import gated_delta_rule, paged_attention
from pantheon.engine.kernels.gated_delta_rule import cases as delta_cases
from pantheon.engine.kernels.gated_delta_rule import reference as delta_reference
from pantheon.engine.kernels.paged_attention import cases as attention_cases
from pantheon.engine.kernels.paged_attention import reference as attention_reference

_SAMPLE_SECONDS: Final = 0.1
_MAX_CALLS: Final = 10_000

_Implementation = Callable[..., Any]


def compare_kernels(rounds: int) -> tuple[Comparison, ...]:
    """Calls per second of each kernel and of its reference, in turns."""
    return (
        *(_compare_attention(case, rounds) for case in attention_cases.CASES),
        *(_compare_delta_rule(case, rounds) for case in delta_cases.CASES),
    )


def _compare_attention(case: attention_cases.Case, rounds: int) -> Comparison:
    keywords = {"scale": case.head_dim**-0.5, "window": case.window}
    ours = partial(paged_attention.paged_attention, **keywords)
    theirs = partial(attention_reference.reference, **keywords)
    return _compare(f"paged_attention: {case.name}", ours, theirs, case.arguments(), rounds)


def _compare_delta_rule(case: delta_cases.Case, rounds: int) -> Comparison:
    ours, theirs = gated_delta_rule.gated_delta_rule, delta_reference.reference
    return _compare(f"gated_delta_rule: {case.name}", ours, theirs, case.arguments(), rounds)


def _compare(
    name: str,
    ours: _Implementation,
    theirs: _Implementation,
    values: tuple[np.ndarray, ...],
    rounds: int,
) -> Comparison:
    arguments = jax.device_put(values)
    implementations = [jax.jit(ours), jax.jit(theirs)]
    calls = [_calls(one, arguments) for one in implementations]
    samples = [
        tuple(
            _rate(one, arguments, count) for one, count in zip(implementations, calls, strict=True)
        )
        for _ in range(rounds)
    ]
    our_rates, their_rates = zip(*samples, strict=True)
    return Comparison(name, our_rates, their_rates)


def _calls(implementation: _Implementation, arguments: tuple[Any, ...]) -> int:
    """How many calls fill a sample; compiles on the way."""
    _wait_for(implementation(*arguments))
    return max(1, min(_MAX_CALLS, int(_SAMPLE_SECONDS * _rate(implementation, arguments, 5))))


def _rate(implementation: _Implementation, arguments: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        # Waited for each time, as a step waits for it: calls must not overlap.
        _wait_for(implementation(*arguments))
    return calls / (time.perf_counter() - start)


def _wait_for(results: Any) -> None:
    jax.block_until_ready(results)  # type: ignore[no-untyped-call]
