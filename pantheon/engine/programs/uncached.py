"""Compilation without JAX's own cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax.experimental.compilation_cache import compilation_cache


@contextmanager
def without_cache_of_jax() -> Iterator[None]:
    """Neither read nor write JAX's cache of compiled programs meanwhile, in any thread.

    XLA's CPU client does not give back all of a program that it has loaded instead of compiled:
    what is written of such a one lacks functions, which shows when it is run.
    """
    enabled = jax.config.values["jax_enable_compilation_cache"]
    _enable(False)
    try:
        yield
    finally:
        _enable(enabled)


def _enable(value: bool) -> None:
    jax.config.update("jax_enable_compilation_cache", value)  # type: ignore[no-untyped-call]
    # JAX looks at the option once, until it is reset.
    compilation_cache.reset_cache()
