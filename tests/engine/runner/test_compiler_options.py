"""Steps are compiled so that models that answer meanwhile are not held up."""

import os

import jax
import pytest

from pantheon.engine.runner.compiler_options import compiler_options


@pytest.mark.parametrize(("cores", "parts"), [(1, "1"), (2, "1"), (3, "1"), (8, "4"), (64, "32")])
def test_compiling_leaves_half_of_the_threads_to_steps(
    monkeypatch: pytest.MonkeyPatch, cores: int, parts: str
) -> None:
    """XLA's CPU client has one thread a core for compiling and for running."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    assert compiler_options() == {"xla_cpu_parallel_codegen_split_count": parts}


def test_the_option_is_known_to_the_compiler() -> None:
    """An option that XLA does not know, or of a wrong type, is refused by it."""
    lowered = jax.jit(lambda x: x + 1).lower(1)
    assert lowered.compile(compiler_options())(1) == 2
    with pytest.raises(jax.errors.JaxRuntimeError):
        lowered.compile({"xla_cpu_parallel_codegen_split_countx": "1"})
    with pytest.raises(jax.errors.JaxRuntimeError):
        lowered.compile({"xla_cpu_parallel_codegen_split_count": "many"})
