"""The two servers, started alike: same file, same context, same rows, all cores."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.peer import Peer
from bench.process import running, wait_until
from pantheon.settings import Settings

HOST: Final = "127.0.0.1"
_READY_SECONDS: Final = 1800.0
"""A cold first start of Pantheon compiles every step."""

_TELL_SECONDS: Final = 15.0
_KEPT: Final = "PANTHEON_COMPILE_CACHE_DIR"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready.

    Attributes:
        extra: fields that its requests carry beside the common ones.
        ready_seconds: from its start to its first answer.
    """

    name: str
    port: int
    pid: int
    extra: Mapping[str, Any]
    ready_seconds: float


@contextmanager
def pantheon(
    root: Path,
    model: Path,
    rows: int,
    context: int,
    log: Path,
    settings: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Iterator[Server]:
    """Pantheon of this checkout with its default settings, whatever the environment says.

    Args:
        settings: environment variables for those that differ.
        extra: fields that its requests carry beside the common ones.
    """
    port = _free_port()
    command = (
        *(sys.executable, "-m", "pantheon", "serve", str(model), "--host", HOST),
        *("--port", str(port), "--ctx-cap", str(context)),
        *("--max-sessions", str(rows), "--max-concurrent", str(rows)),
    )
    with running(command, root, log, {**_without_ours(), **(settings or {})}) as process:
        yield _ready("pantheon", process, port, "/v1/models", log, extra or {})


@contextmanager
def llama_cpp(
    peer: Peer,
    model: Path,
    rows: int,
    context: int,
    log: Path,
    *,
    caches: bool = False,
    options: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> Iterator[Server]:
    """llama-server with a slot of `context` tokens for each row.

    Args:
        caches: let a prompt reuse what its slot holds of it, as is its default.
        options: further ones of its command line; they override those given here.
        extra: fields that its requests carry beside the common ones.
    """
    port = _free_port()
    threads = str(len(os.sched_getaffinity(0)))
    command = (
        *(str(peer.server), "--model", str(model), "--host", HOST, "--port", str(port)),
        *("--threads", threads, "--threads-batch", threads, "--poll", "0"),
        *("--parallel", str(rows), "--ctx-size", str(rows * context), "--no-kv-unified"),
        "--offline",
        *(() if caches else ("--no-cache-prompt", "--cache-ram", "0")),
        *options,
    )
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    fields = {**({} if caches else {"cache_prompt": False}), **(extra or {})}
    with running(command, peer.server.parent, log, theirs) as process:
        yield _ready("llama.cpp", process, port, "/health", log, fields)


@contextmanager
def ready_server(
    name: str, root: Path, command: Sequence[str], settings: Mapping[str, str], log: Path
) -> Iterator[Server]:
    """A server of this checkout that takes its address from the settings, as gunicorn does."""
    port = _free_port()
    environment = {**_without_ours(), **settings, "PANTHEON_HOST": HOST, "PANTHEON_PORT": str(port)}
    with running(command, root, log, environment) as process:
        yield _ready(name, process, port, "/", log, {})


def _without_ours() -> dict[str, str]:
    """The environment without what would configure the server."""
    ours = {declaration.env for _, declaration, _ in Settings.declarations()} - {_KEPT}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment.pop("GUNICORN_CMD_ARGS", None)
    return environment


def _ready(
    name: str,
    process: subprocess.Popen[bytes],
    port: int,
    path: str,
    log: Path,
    extra: Mapping[str, Any],
) -> Server:
    print(f"starting {name}", flush=True)
    told = 0.0

    def tell(waited: float) -> None:
        nonlocal told
        if waited - told >= _TELL_SECONDS:
            told = waited
            lines: Sequence[str] = log.read_text("utf-8", "replace").splitlines() or [""]
            print(f"  {name}, {waited:.0f} s: {lines[-1][:120]}", flush=True)

    waited = wait_until(lambda: _answers(port, path), process, log, _READY_SECONDS, tell)
    print(f"  {name} is ready after {waited:.1f} s", flush=True)
    return Server(name, port, process.pid, extra, waited)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        # Not listening yet, or listening and not answering: asked again.
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    if not isinstance(port, int):
        raise BenchError(f"expected a port number, got {port!r}")
    return port
