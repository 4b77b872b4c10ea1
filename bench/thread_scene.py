"""How soon `GET /` is answered while watches, queued chats and a stream hold threads."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from bench.errors import BenchError
from bench.goals import Goal, Measure
from bench.prompts import Prompts
from bench.running_stream import RunningStream
from bench.servers import HOST, Server

WATCHES: Final = 64
QUEUED: Final = 40
CONTEXT: Final = 2048
SETTINGS: Final = {
    "BS_QUEUE_DEPTH": "64",
    # The stream must not be ended for repeating itself.
    "PANTHEON_REPETITION_LOOP": "0",
}
_GETS: Final = 200
_PAUSE_SECONDS: Final = 0.05
_SETTLE_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 30.0
_STREAM_TEXTS: Final = 10


def measure_threads(server: Server, endless: Mapping[str, Any]) -> tuple[Measure, ...]:
    """Time `GET /` before and in the scene.

    Raises:
        BenchError: the scene does not hold until its end.
    """
    before = _gets(server)
    source = Prompts(seed=64)
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(_connected(server)) for _ in range(WATCHES)]
        for number, watch in enumerate(watches):
            watch.sendall(_request("GET", f"/session/watch?session_id=watch-{number}"))
        for watch in watches:
            _read_comment(watch)
        stream = stack.enter_context(RunningStream(server, source.story(), CONTEXT - 100, endless))
        stream.wait_for(_STREAM_TEXTS, _WAIT_SECONDS)
        chats = [stack.enter_context(_connected(server)) for _ in range(QUEUED)]
        for chat in chats:
            messages = [{"role": "user", "content": source.story()}]
            body = json.dumps({"messages": messages, "max_tokens": 8}).encode()
            chat.sendall(_request("POST", "/v1/chat/completions", body))
        time.sleep(_SETTLE_SECONDS)
        times = _gets(server)
        stream.check()
        for name, held in (("watch", watches), ("queued chat", chats)):
            if not all(_is_silent(sock) for sock in held):
                raise BenchError(f"a {name} was answered before the scene was over")
    details = {
        "requests": len(times),
        "idle_p50": round(median(before), 3),
        "idle_max": round(max(before), 3),
        "p99": round(sorted(times)[len(times) * 99 // 100], 3),
    }
    scene = f"GET / beside {WATCHES} watches, {QUEUED} queued chats, 1 stream"
    return (
        Measure(f"{scene}: median", "ms", median(times), Goal(100), details=details),
        Measure(f"{scene}: longest of {len(times)}", "ms", max(times), Goal(100)),
    )


def _gets(server: Server) -> Sequence[float]:
    """Milliseconds of each of `_GETS` requests, connection included."""
    times = []
    for _ in range(_GETS):
        began = time.perf_counter()
        connection = http.client.HTTPConnection(HOST, server.port, timeout=_WAIT_SECONDS)
        try:
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            raise BenchError(f"{server.name}: GET / failed: {error!r}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise BenchError(f"{server.name}: expected GET / to be 200, got {response.status}")
        times.append(1000 * (time.perf_counter() - began))
        time.sleep(_PAUSE_SECONDS)
    return times


def _connected(server: Server) -> socket.socket:
    return socket.create_connection((HOST, server.port), _WAIT_SECONDS)


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{length}\r\n".encode() + body


def _read_comment(watch: socket.socket) -> None:
    data = b""
    # With the framing of its chunk: nothing may be left to read.
    while not data.endswith(b": watch established\n\n\r\n"):
        part = watch.recv(4096)
        if not part or len(data) > 1 << 16:
            raise BenchError(f"expected an established watch, got {data[:500]!r}")
        data += part


def _is_silent(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        sock.recv(1)
    except BlockingIOError:
        return True
    return False
