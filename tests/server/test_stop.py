"""How the server ends (reference, errors of chat completions: `server_shutting_down`).

The first signal drains: what runs goes on for a while, everything new is refused. The second ends.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.models import serve_tiny
from tests.server.process import (
    ROOT,
    Server,
    start_process,
    start_server,
    stop_process,
)
from tests.server.wire import (
    CHAT,
    connect,
    events_of,
    exchange,
    get,
    parse_answer,
    post_chat,
    read_all,
    request_bytes,
    say,
    stream_request,
)

pytestmark = pytest.mark.server

GUNICORN = (sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"))
BOOTING = re.compile(r"Booting worker with pid: (\d+)")
ENDLESS = stream_request("slow 100", max_tokens=10_000)


def begin(server: Server, sock: socket.socket, request: bytes = ENDLESS) -> bytes:
    """Send a request and wait for the first bytes of its response, which are returned."""
    sock.sendall(request)
    received = sock.recv(65536)
    assert received.startswith(b"HTTP/1.1 200")
    return received


def signal_and_wait_draining(server: Server, number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(server.pid, number)
    wait_until(lambda: "draining" in server.log.read_text())


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_gone(server: Server, seconds: float) -> None:
    """Wait until the server's processes are gone; the parent's may wait for us to collect it."""
    deadline = time.monotonic() + seconds
    while not os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        assert time.monotonic() < deadline, f"still running after {seconds} s"
        time.sleep(0.05)
    wait_until(lambda: not any(is_running(pid) for pid in worker_pids(server)), seconds)


def worker_pids(server: Server) -> list[int]:
    """Every worker that was started, the newest last."""
    found = BOOTING.findall(server.log.read_text())
    assert found
    return [int(pid) for pid in found]


def is_running(pid: int) -> bool:
    """Whether a process is there and does not only wait to be collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_draining_server_finishes_streams_and_refuses_what_is_new() -> None:
    """Reference: 503 with `Retry-After: 1`, on connections that come after the signal."""
    with start_server() as server, connect(server, timeout=20) as sock:
        head = begin(server, sock, stream_request("slow 100", max_tokens=20))
        signal_and_wait_draining(server)
        for body in (say("words 1"), say("words 1", stream=True)):
            refused = post_chat(server, body)
            assert (refused.status, refused.error_type()) == (503, "server_shutting_down")
            assert refused.header("retry-after") == ["1"]
            assert refused.header("access-control-allow-origin") == ["*"]
        assert get(server, "/").status == 200
        events = events_of(parse_answer(head + read_all(sock)).body)
        assert events[-1] == "[DONE]"
        assert sum('"content"' in event for event in events) == 20
        wait_gone(server, 6)
        with pytest.raises(ConnectionRefusedError):
            get(server, "/")


def test_draining_server_finishes_an_answer_that_is_not_streamed() -> None:
    with start_server() as server, connect(server, timeout=20) as sock:
        body = b'{"messages":[{"role":"user","content":"slow 100"}],"max_tokens":15}'
        sock.sendall(request_bytes("POST", CHAT, body))
        time.sleep(0.3)
        signal_and_wait_draining(server)
        answer = parse_answer(read_all(sock))
        assert answer.status == 200
        assert len(answer.json()["choices"][0]["message"]["content"].split()) == 15
        wait_gone(server, 6)


def test_what_waits_in_the_queue_is_refused_at_once() -> None:
    with (
        start_server(environment={"SCRIPTED_ROWS": "1"}) as server,
        connect(server) as running,
        connect(server) as waiting,
    ):
        begin(server, running)
        waiting.sendall(stream_request("words 1"))
        time.sleep(0.3)
        signal_and_wait_draining(server)
        refused = parse_answer(read_all(waiting))
        assert (refused.status, refused.error_type()) == (503, "server_shutting_down")
        assert refused.header("retry-after") == ["1"]
        assert not os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def test_watches_end_and_do_not_delay_the_end() -> None:
    """Scenario 204: a watch would never end by itself."""
    with start_server() as server, connect(server) as sock:
        head = begin(server, sock, request_bytes("GET", "/session/watch?session_id=s"))
        os.kill(server.pid, signal.SIGTERM)
        assert parse_answer(head + read_all(sock)).body.startswith(b": watch established")
        sock.close()
        wait_gone(server, 4)


def test_stream_that_outlasts_the_drain_is_closed_properly() -> None:
    """Reference, streaming response: a failure closes with `stop`, then `[DONE]`."""
    with (
        start_server(environment={"PANTHEON_DRAIN_MS": "700"}) as server,
        connect(server, timeout=20) as sock,
    ):
        head = begin(server, sock)
        signal_and_wait_draining(server)
        events = events_of(parse_answer(head + read_all(sock)).body)
        assert events[-1] == "[DONE]"
        assert '"finish_reason":"stop"' in events[-2]
        sock.close()
        wait_gone(server, 4)


def test_answer_that_outlasts_the_drain_is_a_503() -> None:
    with (
        start_server(environment={"PANTHEON_DRAIN_MS": "300"}) as server,
        connect(server, timeout=20) as sock,
    ):
        body = b'{"messages":[{"role":"user","content":"slow 100"}],"max_tokens":10000}'
        sock.sendall(request_bytes("POST", CHAT, body))
        time.sleep(0.3)
        os.kill(server.pid, signal.SIGTERM)
        answer = parse_answer(read_all(sock))
        assert (answer.status, answer.error_type()) == (503, "server_shutting_down")
        assert answer.header("retry-after") == ["1"]
        sock.close()
        wait_gone(server, 4)


def test_real_model_drains_and_ends() -> None:
    """The same with an engine that computes."""
    with serve_tiny(PANTHEON_DRAIN_MS="500") as server, connect(server, timeout=20) as sock:
        head = begin(server, sock, stream_request("Tell me more.", max_tokens=100_000))
        signal_and_wait_draining(server)
        assert get(server, "/").status == 200
        assert events_of(parse_answer(head + read_all(sock)).body)[-1] == "[DONE]"
        sock.close()
        wait_gone(server, 6)
        assert "Traceback" not in server.log.read_text()
        assert "responses cut" not in server.log.read_text()


def test_client_that_reads_nothing_does_not_keep_the_server() -> None:
    """Its response can only be cut."""
    request = stream_request("words 4000", max_tokens=4000, logprobs=True, top_logprobs=20)
    with (
        start_server(environment={"PANTHEON_DRAIN_MS": "300"}) as server,
        socket.socket() as sock,
    ):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((server.host, server.port))
        sock.sendall(request)
        assert sock.recv(1)
        os.kill(server.pid, signal.SIGTERM)
        wait_gone(server, 6)
        assert "ending with 1 responses cut" in server.log.read_text()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGTERM, signal.SIGINT),
        (signal.SIGTERM, signal.SIGQUIT),
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGHUP, signal.SIGTERM),
    ],
)
def test_second_signal_ends_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with start_server() as server, connect(server, timeout=20) as sock:
        begin(server, sock)
        signal_and_wait_draining(server, first)
        time.sleep(0.5)
        assert get(server, "/").status == 200
        os.kill(server.pid, second)
        wait_gone(server, 4)


def test_two_signals_in_a_row_are_two() -> None:
    with start_server() as server, connect(server, timeout=20) as sock:
        begin(server, sock)
        os.kill(server.pid, signal.SIGTERM)
        os.kill(server.pid, signal.SIGINT)
        wait_gone(server, 4)


def test_one_signal_that_comes_twice_at_once_is_one() -> None:
    """As from a wrapper that signals the process and then its group."""
    with start_server() as server, connect(server, timeout=20) as sock:
        head = begin(server, sock, stream_request("slow 100", max_tokens=15))
        os.kill(server.pid, signal.SIGINT)
        time.sleep(0.01)
        os.kill(server.pid, signal.SIGINT)
        events = events_of(parse_answer(head + read_all(sock)).body)
        assert sum('"content"' in event for event in events) == 15
        wait_gone(server, 6)


def test_quit_ends_at_once() -> None:
    with start_server() as server, connect(server, timeout=20) as sock:
        begin(server, sock)
        os.kill(server.pid, signal.SIGQUIT)
        wait_gone(server, 4)


def test_interrupt_from_a_terminal_drains_and_ends_the_second_time() -> None:
    """A terminal sends it to every process of the group."""
    with start_server() as server, connect(server, timeout=20) as sock:
        begin(server, sock)
        os.killpg(server.pid, signal.SIGINT)
        wait_until(lambda: "draining" in server.log.read_text())
        time.sleep(0.5)
        assert post_chat(server, say("words 1")).status == 503
        os.killpg(server.pid, signal.SIGINT)
        wait_gone(server, 4)


def test_term_to_every_process_drains() -> None:
    """As service managers send it; the worker then hears it twice."""
    with start_server() as server, connect(server, timeout=20) as sock:
        head = begin(server, sock, stream_request("slow 100", max_tokens=15))
        os.killpg(server.pid, signal.SIGTERM)
        events = events_of(parse_answer(head + read_all(sock)).body)
        assert sum('"content"' in event for event in events) == 15
        wait_gone(server, 6)


@pytest.mark.parametrize("sent", [b"", b"GET / HT"], ids=["nothing", "half a head"])
def test_client_without_a_request_does_not_delay_the_end(sent: bytes) -> None:
    with start_server() as server, connect(server) as sock:
        sock.sendall(sent)
        time.sleep(0.2)
        os.kill(server.pid, signal.SIGTERM)
        received = read_all(sock)
        assert (parse_answer(received).status if sent else received) == (503 if sent else b"")
        sock.close()
        wait_gone(server, 4)


def test_server_that_still_loads_ends_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {"PANTHEON_COMPILE_CACHE_DIR": "off"}
    with log.open("wb") as output:
        process = start_process((*GUNICORN, "pantheon.app"), environment, output)
        try:
            wait_until(lambda: "loading" in log.read_text(), 30)
            process.terminate()
            process.wait(5)
        finally:
            stop_process(process)
    assert "is ready on" not in log.read_text()
    assert not any(is_running(int(pid)) for pid in BOOTING.findall(log.read_text()))


def test_second_server_is_not_started_by_a_signal() -> None:
    """gunicorn would run another arbiter with the same models on SIGUSR2."""
    with start_server() as server:
        os.kill(server.pid, signal.SIGUSR2)
        time.sleep(1)
        assert get(server, "/").status == 200
        assert len(worker_pids(server)) == 1
        children = subprocess.run(
            ("ps", "-o", "pid=", "--ppid", str(server.pid)), capture_output=True, check=True
        )
        assert [int(pid) for pid in children.stdout.split()] == worker_pids(server)


def test_killed_server_leaves_nothing_in_the_way_of_the_next() -> None:
    """SIGKILL of the parent in mid-turn; the worker gives the port up by itself."""
    with start_server() as server, connect(server, timeout=20) as sock:
        begin(server, sock)
        os.kill(server.pid, signal.SIGKILL)
        with start_server(environment={"PANTHEON_PORT": str(server.port)}) as second:
            assert second.port == server.port
            assert post_chat(second, say("words 1")).status == 200
            wait_until(lambda: not is_running(worker_pids(server)[0]))


def test_killed_worker_is_replaced() -> None:
    """SIGKILL in mid-turn, as by the kernel when memory is short."""
    with start_server() as server, connect(server, timeout=20) as sock:
        begin(server, sock)
        os.kill(worker_pids(server)[0], signal.SIGKILL)
        wait_until(lambda: server.log.read_text().count("is ready on") == 2)
        assert post_chat(server, say("words 1")).status == 200
        assert exchange(server, stream_request("words 2")).status == 200
