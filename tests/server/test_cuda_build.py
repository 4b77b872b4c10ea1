"""A build for CUDA on a machine without a GPU (reference, `GET /`: `dies_visible`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.server.models import serve_tiny
from tests.server.process import ROOT, Server, run_to_exit
from tests.server.wire import get, post, post_chat

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_REASON = "operation cuInit(0) failed: no CUDA-capable device is detected"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH of an installation with a plugin that finds no driver, as JAX's own does."""
    folder = tmp_path_factory.mktemp("installed")
    for module, text in (
        ("jax_cuda12_plugin", ""),
        ("jax_plugins/xla_cuda12", f"def initialize():\n    raise RuntimeError({_REASON!r})\n"),
    ):
        (folder / module).mkdir(parents=True)
        (folder / module / "__init__.py").write_text(text)
    return f"{folder}{os.pathsep}{ROOT}"


@pytest.fixture(scope="module")
def server(installed: str) -> Iterator[Server]:
    with serve_tiny(",ctx_cap=256,max_sessions=1", PYTHONPATH=installed) as started:
        yield started


def test_it_says_what_it_was_built_for_and_that_it_has_no_accelerator(server: Server) -> None:
    """Reference, `GET /`: 0 dies on a CUDA build means no driver, no card or none visible."""
    health = get(server, "/").json()
    assert (health["backend"], health["accelerator"], health["dies_visible"]) == ("cuda", False, 0)
    assert get(server, "/v1/models").json()["backend"] == "cuda"
    assert get(server, "/admin/dies").json() == {"object": "list", "n_dies": 0, "data": []}


def test_models_run_on_the_cpu_and_say_so(server: Server) -> None:
    """Reference, `attention`: reason `no_flash_kernels`; `graphs` omitted without slots."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    assert post_chat(server, body, timeout=60).status == 200
    (row,) = get(server, "/admin/models").json()["data"]
    assert row["dies"] == []
    assert "graphs" not in row
    layers = row["attention"]["total"]
    assert layers > 0
    assert row["attention"]["host"] == layers
    assert row["attention"]["reasons"] == {"no_flash_kernels": layers}


def test_dies_cannot_be_named(server: Server) -> None:
    """Reference, `POST /admin/models/load`: 400 `load_failed` with no dies visible."""
    path = get(server, "/admin/models").json()["data"][0]["path"]
    answer = post(server, "/admin/models/load", {"path": path, "name": "other", "dies": [0]})
    assert (answer.status, answer.json()["error"]["type"]) == (400, "load_failed")
    assert "cuda build" in answer.json()["error"]["message"]


def test_the_log_says_why_in_one_line(server: Server) -> None:
    log = server.log.read_text()
    (line,) = (line for line in log.splitlines() if _REASON in line)
    assert "NO CUDA DEVICE IS VISIBLE, models run on the CPU" in line
    assert "Traceback" not in log


def test_a_device_that_is_asked_for_and_not_there_stops_the_start_in_one_line(
    installed: str,
) -> None:
    """Nothing falls back in silence: JAX_PLATFORMS=cuda allows no other."""
    status, output = run_to_exit(
        (sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "pantheon.app"),
        {"PYTHONPATH": installed, "JAX_PLATFORMS": "cuda", "PANTHEON_MODELS": ";"},
        seconds=60,
    )
    assert status != 0
    assert "pantheon: JAX has no device that may be used: " in output
    assert "Traceback" not in output
