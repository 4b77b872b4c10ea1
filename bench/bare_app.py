"""`application` for gunicorn that imports JAX, compiles one product and answers "ok"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

_PRODUCT = jax.jit(jnp.matmul)
# What any program with JAX holds: the backend, its threads and one compiled function.
_PRODUCT(jnp.ones((8, 8)), jnp.ones((8, 8))).block_until_ready()


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """Answer every request."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"ok"]
