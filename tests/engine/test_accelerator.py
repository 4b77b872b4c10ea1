"""Which platforms JAX brings up, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import jax
from jax._src import xla_bridge
from pantheon.engine.accelerator import keep_host
xla_bridge.register_backend_factory("other", xla_bridge.make_cpu_client, priority=400)
print(keep_host())
(host,) = jax.local_devices(backend="cpu")
print(jax.devices()[0].client is host.client)
"""
"""A platform that is no CPU, as far as JAX can tell."""


@pytest.mark.parametrize(
    ("platforms", "names_only_others", "host_is_first"),
    [("other", True, False), ("other,cpu", False, False), ("cpu,other", False, True)],
)
def test_the_host_is_there_for_weights_where_jax_platforms_names_only_others(
    platforms: str, names_only_others: bool, host_is_first: bool
) -> None:
    """ARCHITECTURE, text and files: JAX_PLATFORMS that names only accelerators. Models are on the
    device that it names first."""
    run = subprocess.run(
        (sys.executable, "-c", _PROGRAM),
        cwd=Path(__file__).parents[2],
        env={**os.environ, "JAX_PLATFORMS": platforms},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.stdout.split() == [str(names_only_others), str(host_is_first)], run.stderr[-2000:]
