"""Which connection a full table gives up."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pantheon.http.connection import Connection, Wait
from pantheon.http.connection_table import ConnectionTable
from pantheon.http.intake import Intake


class Clients:
    """A table of four, and connections in it whose other ends are kept open."""

    def __init__(self) -> None:
        self.poller = selectors.DefaultSelector()
        self.table = ConnectionTable(self.poller, 4)
        self._sockets: list[socket.socket] = []

    def add(self, stage: Wait | None, since: float = 0.0) -> Connection:
        """A connection that waits for something, or is being served."""
        ours, theirs = socket.socketpair()
        self._sockets += [ours, theirs]
        connection = Connection(ours, None, None, Intake(since, 10, 10))
        self.table.add(connection)
        if stage is Wait.BODY:
            connection.intake.body_limit = 100
        if stage is Wait.CLOSE:
            connection.closing_until = since + 2
        if stage is not None:
            self.table.wait(connection, _ignore, since)
            assert connection.waits_for is stage
        return connection

    def close(self) -> None:
        self.poller.close()
        for sock in self._sockets:
            sock.close()


def _ignore(_connection: Connection, _sock: Any) -> None:
    """Nothing is ever readable here."""


@pytest.fixture
def clients() -> Iterator[Clients]:
    made = Clients()
    yield made
    made.close()


def test_room_until_every_place_is_served(clients: Clients) -> None:
    table = clients.table
    for _ in range(3):
        clients.add(None)
    assert not table.is_full and table.has_room
    waiting = clients.add(Wait.HEAD)
    assert table.is_full and table.has_room
    table.take(waiting)
    assert table.is_full and not table.has_room
    assert table.dispensable(100.0) is None
    assert len(table.served) == 4
    table.close(waiting)
    assert table.has_room


def test_silent_client_goes_before_one_that_leaves_and_one_that_sends(clients: Clients) -> None:
    body = clients.add(Wait.BODY)
    close = clients.add(Wait.CLOSE)
    head = clients.add(Wait.HEAD)
    for expected in (head, close, body):
        assert clients.table.dispensable(100.0) is expected
        clients.table.close(expected)
    assert clients.table.dispensable(100.0) is None


def test_of_the_same_kind_the_one_that_has_waited_longest_goes(clients: Clients) -> None:
    first = clients.add(Wait.HEAD, since=5)
    second = clients.add(Wait.HEAD, since=6)
    assert clients.table.dispensable(100.0) is first
    clients.table.take(first)
    clients.table.wait(first, _ignore, 7)
    assert clients.table.dispensable(100.0) is second


def test_who_has_just_come_is_spared_while_there_are_others(clients: Clients) -> None:
    """Else those that hold their places would keep out everyone who comes later."""
    old_body = clients.add(Wait.BODY, since=0)
    new_head = clients.add(Wait.HEAD, since=99.5)
    assert clients.table.dispensable(100.0) is old_body
    clients.table.close(old_body)
    assert clients.table.dispensable(100.0) is new_head


def test_closed_connection_is_forgotten_whatever_it_did(clients: Clients) -> None:
    served, waiting = clients.add(None), clients.add(Wait.HEAD)
    for connection in (served, waiting):
        clients.table.close(connection)
        assert connection.sock.fileno() == -1
    assert len(clients.table) == 0
    assert not clients.poller.get_map()
    clients.table.close(waiting)


def test_only_large_buffers_are_counted(clients: Clients) -> None:
    clients.add(Wait.HEAD).intake.buffer += b"x" * 10
    clients.add(Wait.BODY).intake.buffer += b"x" * 100
    clients.add(None).intake.buffer += b"x" * 50
    assert clients.table.buffered(above=10) == 150
