"""How the server ends."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.server.process import start_server
from tests.server.wire import connect, events_of, parse_answer, read_all, stream_request

pytestmark = pytest.mark.server


def test_term_lets_a_stream_finish() -> None:
    with start_server() as server, connect(server, timeout=20) as sock:
        sock.sendall(stream_request("slow 100", max_tokens=15))
        head = sock.recv(65536)
        os.kill(server.pid, signal.SIGTERM)
        answer = parse_answer(head + read_all(sock))
        events = events_of(answer.body)
        assert events[-1] == "[DONE]"
        assert sum('"content"' in event for event in events) == 15
        _wait_gone(server.pid, 10)


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGQUIT])
def test_interrupt_ends_at_once_beside_an_endless_stream(name: signal.Signals) -> None:
    with start_server() as server, connect(server, timeout=20) as sock:
        sock.sendall(stream_request("slow 100", max_tokens=10_000))
        assert sock.recv(65536)
        os.kill(server.pid, name)
        _wait_gone(server.pid, 6)


def test_silent_connection_does_not_delay_the_end() -> None:
    with start_server() as server, connect(server):
        time.sleep(0.2)
        os.kill(server.pid, signal.SIGTERM)
        _wait_gone(server.pid, 6)


def _wait_gone(pid: int, seconds: float) -> None:
    """Wait until a process is gone or waits only to be collected by its parent, this one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.05)
    raise AssertionError(f"still running after {seconds} s")
