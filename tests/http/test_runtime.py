"""What handlers learn of the client at the other end."""

from __future__ import annotations

from pantheon.http.runtime import SocketClient


def test_client_is_named_by_its_address_and_user_agent() -> None:
    environ = {
        "REMOTE_ADDR": "10.0.0.1",
        "HTTP_USER_AGENT": "agent/1",
        "HTTP_X_FORWARDED_FOR": "10.9.9.9",
    }
    assert SocketClient(environ).name == "10.0.0.1 agent/1"
    assert SocketClient({"REMOTE_ADDR": "10.0.0.1"}).name == "10.0.0.1"
    assert SocketClient({}).name == ""


def test_name_of_a_client_is_bounded() -> None:
    environ = {"REMOTE_ADDR": "10.0.0.1", "HTTP_USER_AGENT": "x" * 8000}
    assert len(SocketClient(environ).name) == 200


def test_client_without_a_socket_never_leaves() -> None:
    assert not SocketClient({}).is_gone()
