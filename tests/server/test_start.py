"""How the server starts, and what it refuses to start with: one line, no second try."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.server.process import (
    ROOT,
    Server,
    run_to_exit,
    start_process,
    start_server,
    stop_process,
    wait_ready,
)
from tests.server.wire import get

pytestmark = pytest.mark.server

GUNICORN = (sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"))
PANTHEON = (sys.executable, "-m", "pantheon")


@pytest.mark.parametrize(
    ("flags", "environment", "reason"),
    [
        (("--workers", "2"), {}, "expected 1 worker, got 2"),
        ((), {"GUNICORN_CMD_ARGS": "--workers 3"}, "expected 1 worker, got 3"),
        ((), {"WEB_CONCURRENCY": "4"}, "WEB_CONCURRENCY: expected 1, got '4'"),
        (("--preload",), {}, "without --preload"),
        (("-k", "sync"), {}, "pantheon.http.worker.Worker"),
        (("-k", "gthread"), {}, "pantheon.http.worker.Worker"),
        ((), {"PANTHEON_MAX_BODY_BYTES": "many"}, "PANTHEON_MAX_BODY_BYTES: expected an integer"),
        ((), {"PANTHEON_MODELS": "path=a.gguf,size=5"}, "PANTHEON_MODELS: expected 'path="),
    ],
    ids=[
        "workers",
        "workers by environment",
        "WEB_CONCURRENCY",
        "preload",
        "sync",
        "gthread",
        "bad number",
        "bad model",
    ],
)
def test_gunicorn_refuses_what_cannot_work(
    flags: tuple[str, ...], environment: dict[str, str], reason: str
) -> None:
    status, output = run_to_exit((*GUNICORN, *flags, "pantheon.app"), environment)
    assert status not in (0, None)
    assert sum(reason in line for line in output.splitlines()) == 1
    assert "Traceback" not in output
    assert output.count("Booting worker") <= 1


def test_gunicorn_without_our_configuration_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "empty.conf.py"
        config.write_text('bind = "127.0.0.1:0"\n')
        command = (sys.executable, "-m", "gunicorn", "-c", str(config), "pantheon.app")
        status, output = run_to_exit(command)
    assert status != 0
    assert "pantheon.http.worker.Worker" in output
    assert "Traceback" not in output


def test_model_that_cannot_load_stops_the_server() -> None:
    """One line and a status, not a row of workers that fail in turn."""
    environment = {"PANTHEON_MODELS": "path=/nonexistent/model.gguf"}
    status, output = run_to_exit((*GUNICORN, "pantheon.app"), environment, seconds=60)
    assert status != 0
    assert output.count("Booting worker") == 1
    assert re.search(r"^pantheon: .*/nonexistent/model\.gguf", output, re.MULTILINE)
    assert "Traceback" not in output


def test_compile_cache_that_is_no_folder_stops_the_server() -> None:
    environment = {"PANTHEON_COMPILE_CACHE_DIR": str(ROOT / "Makefile"), "PANTHEON_MODELS": ";"}
    status, output = run_to_exit((*PANTHEON, "serve"), environment, seconds=60)
    assert status != 0
    assert re.search(r"^pantheon: the compile cache must be a folder", output, re.MULTILINE)
    assert "Traceback" not in output


def test_pantheon_serve_stops_on_a_model_that_cannot_load() -> None:
    command = (*PANTHEON, "serve", "/nonexistent/model.gguf")
    status, output = run_to_exit(command, seconds=60)
    assert status != 0
    assert re.search(r"^pantheon: .*/nonexistent/model\.gguf", output, re.MULTILINE)
    assert "Traceback" not in output


def test_pantheon_serve_starts_empty_from_any_folder() -> None:
    """Reference, `GET /v1/models`: an empty `data` array when nothing is loaded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log"
        with log.open("wb") as output:
            process = start_process(
                (*PANTHEON, "serve"),
                {"PANTHEON_MODELS": ";", "PYTHONPATH": str(ROOT)},
                output,
                folder,
            )
            try:
                host, port = wait_ready(process, log, 60)
                server = Server(host, port, process.pid, log)
                assert get(server, "/v1/models").json()["data"] == []
                assert get(server, "/admin/models").json() == {"object": "list", "data": []}
            finally:
                stop_process(process)


def test_ready_line_gives_a_curl_that_works() -> None:
    with start_server() as server:
        log = server.log.read_text()
        command = next(line for line in log.splitlines() if line.lstrip().startswith("curl "))
        result = subprocess.run(
            ("sh", "-c", command.strip()), capture_output=True, timeout=20, check=True
        )
        assert b'"content":"Say hello."' in result.stdout


def test_second_worker_is_not_started_by_a_signal() -> None:
    """gunicorn adds a worker on SIGTTIN."""
    with start_server() as server:
        os.kill(server.pid, signal.SIGTTIN)
        deadline = time.monotonic() + 5
        while "expected 1 worker" not in server.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.log.read_text().count("Booting worker") == 1


def test_module_that_is_no_pantheon_application_is_refused() -> None:
    status, output = run_to_exit((*GUNICORN, "falcon:App()"))
    assert status != 0
    assert "runs Pantheon applications" in output
