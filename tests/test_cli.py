"""The command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pantheon import app, build_info, cli
from pantheon.engine.config import ModelOptions
from pantheon.settings import Settings


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of every server that would have been started."""
    started: list[Settings] = []

    class Server:
        def __init__(self, settings: Settings) -> None:
            started.append(settings)

        def run(self) -> None:
            """Serve nothing."""

    monkeypatch.setattr(cli, "_Server", Server)
    for _, declaration, _ in Settings.declarations():
        monkeypatch.delenv(declaration.env, raising=False)
    return started


def test_backend_is_one_lower_case_token(capsys: pytest.CaptureFixture[str]) -> None:
    """Reference, `backend` / `build`: for a deploy script to assert against."""
    cli.main(["--backend"])
    assert capsys.readouterr().out == f"{build_info.backend()}\n"
    assert build_info.backend() in build_info.BACKENDS


def test_version_names_the_build(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("pantheon ")


def test_serve_without_flags_takes_the_environment(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANTHEON_PORT", "9001")
    cli.main(["serve"])
    assert served[0].port == 9001
    assert served[0].models is None


def test_flags_win_over_the_environment(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANTHEON_PORT", "9001")
    monkeypatch.setenv("PANTHEON_MODELS", "path=/env.gguf")
    cli.main(["serve", "/flag.gguf", "--port", "9002", "--host", "::1"])
    assert (served[0].host, served[0].port) == ("::1", 9002)
    assert served[0].models == (ModelOptions(Path("/flag.gguf")),)


def test_every_model_flag_is_read(served: list[Settings]) -> None:
    flags = ["--name", "n", "--ctx-cap", "1", "--max-sessions", "2", "--max-concurrent", "3"]
    flags += ["--reasoning-budget", "4", "--dies", "0,1", "--quantize"]
    cli.main(["serve", "a.gguf", *flags, "--model", "path=b.gguf,name=c"])
    assert served[0].models == (
        ModelOptions(Path("a.gguf"), "n", 1, 2, 3, 4, (0, 1), True),
        ModelOptions(Path("b.gguf"), "c"),
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--port", "x"], "PANTHEON_PORT: expected an integer from 0 to 65535, got 'x'"),
        (["a.gguf", "--ctx-cap", "x"], "--ctx-cap: expected an integer"),
        (["--ctx-cap", "5"], "expected a MODEL.gguf"),
        (["--model", "b.gguf"], "got 'b.gguf'"),
    ],
)
def test_bad_flag_is_one_line_and_status_2(
    served: list[Settings], capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", *arguments])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("pantheon: ")
    assert reason in error
    assert error.count("\n") == 1
    assert served == []


def test_a_process_that_follows_serves_nothing(
    served: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """README, several hosts: `pantheon serve` of another process than 0. It ends with the first
    one, and says why it cannot begin."""
    for name, value in (("COORDINATOR", "host:7000"), ("PROCESSES", "2"), ("PROCESS", "1")):
        monkeypatch.setenv(f"PANTHEON_{name}", value)
    followed: list[int] = []

    def follow(settings: Settings) -> str:
        followed.append(settings.process)
        if len(followed) > 1:
            raise app.CannotStart("pantheon: nobody came")
        return "the connection ended"

    monkeypatch.setattr(app, "follow", follow)
    # At once: JAX's own end would come between.
    monkeypatch.setattr(os, "_exit", sys.exit)
    for status, says in ((0, "process 1 ends: the connection ended"), (1, "nobody came")):
        with pytest.raises(SystemExit) as ended:
            cli.main(["serve"])
        assert ended.value.code == status
        assert capsys.readouterr().err == f"pantheon: {says}\n"
    assert followed == [1, 1] and served == []


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    shown = capsys.readouterr().out
    for _, declaration, _ in Settings.declarations():
        assert declaration.env in shown


def test_without_a_command_it_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([])
    assert "usage: pantheon" in capsys.readouterr().out
