"""The gunicorn worker that Pantheon runs in: gunicorn's threads behind a patient event loop.

What differs from `gthread`: a connection gets a thread only when its request is worth one
(`intake`), no wait on a client is endless (`bounded_socket`), waiting for a client to close
costs no thread, every connection carries one request, and what gunicorn's own parser refuses is
answered in the reference's error shape.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

from gunicorn.config import Config
from gunicorn.errors import AppImportError
from gunicorn.http.errors import NoMoreData
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import ThreadWorker

from pantheon.http.bounded_socket import BoundedSocket, RequestTooSlow
from pantheon.http.intake import READ_AHEAD, Intake
from pantheon.http.limits import ConnectionLimits
from pantheon.http.protocol_errors import TOO_SLOW, protocol_answer, raw_response

_LINGER_SECONDS: Final = 2.0
_EXHAUSTED_PAUSE_SECONDS: Final = 0.05
_DISCONNECTED: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)

IN_WORKER: Final[ContextVar[bool]] = ContextVar("IN_WORKER", default=False)
"""True where an application may start: in the main thread of a process of this worker."""


@runtime_checkable
class ServedApplication(Protocol):
    """A WSGI application that knows its limits and when it starts and ends."""

    limits: ConnectionLimits

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        ...

    def ready(self, url: str) -> None:
        """Called once, when requests are about to be accepted at `url`."""
        ...

    def close(self) -> None:
        """Called once, when no request is served any more or none may go on."""
        ...


class Connection:
    """One client: sending its request, being served, or about to close.

    Attributes:
        deadline: monotonic time in seconds at which waiting for the client ends.
    """

    def __init__(self, sock: socket.socket, client: Any, server: Any, intake: Intake) -> None:
        self.sock = sock
        self.client = client
        self.server = server
        self.intake = intake
        self.closing_until: float | None = None

    @property
    def deadline(self) -> float:
        return self.intake.deadline if self.closing_until is None else self.closing_until


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn carries no types
    """One process, one event loop, `threads` threads."""

    wsgi: ServedApplication

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: set[Connection] = set()

    @classmethod
    def check_config(cls, cfg: Config, log: Any) -> None:
        """Refuse what would run the models twice, before any process is forked.

        Raises:
            RuntimeError: gunicorn prints it and exits.
        """
        if cfg.workers != 1:
            raise RuntimeError(
                f"expected 1 worker, got {cfg.workers}: models and sessions live in one process"
            )
        if cfg.is_ssl:
            raise RuntimeError("this server speaks plain HTTP/1.1; end TLS in a proxy before it")
        cfg.set("keepalive", 0)
        cfg.set("nworkers_changed", _keep_one_worker)

    def init_process(self) -> None:
        """Run the worker; its application may start from here on."""
        IN_WORKER.set(True)
        logger = logging.getLogger("pantheon")
        logger.handlers = list(self.log.error_log.handlers)
        logger.setLevel(self.log.error_log.level)
        logger.propagate = False
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application.

        Raises:
            AppImportError: it is none that this worker can run.
        """
        super().load_wsgi()
        if not isinstance(self.wsgi, ServedApplication):
            raise AppImportError(f"{__name__}.Worker runs Pantheon applications, got {self.wsgi}")

    def run(self) -> None:
        """Serve until told to stop."""
        try:
            self.wsgi.ready(_url(self.sockets[0].getsockname()))
            super().run()
        finally:
            self.wsgi.close()

    def accept(self, listener: Any) -> None:
        """Take a new connection and wait for its request on the event loop."""
        try:
            sock, client = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
            self.log.warning("no descriptor left for a new connection: %s", error)
            time.sleep(_EXHAUSTED_PAUSE_SECONDS)
            return
        self.nr_conns += 1
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        limits = self.wsgi.limits
        intake = Intake(time.monotonic(), limits.head_timeout, limits.body_timeout)
        connection = Connection(sock, client, listener.getsockname(), intake)
        self._wait_for(connection, self._receive)

    def handle(self, connection: Connection) -> None:
        """Serve the request of a connection. Runs in a thread of the pool."""
        request = None
        sock = BoundedSocket(
            connection.sock, connection.intake.deadline, self.wsgi.limits.send_timeout
        )
        try:
            parser = RequestParser(self.cfg, sock, connection.client)
            parser.unreader.unread(bytes(connection.intake.buffer))
            request = next(parser)
            self.handle_request(request, _GunicornConnection(sock, connection))
        except (NoMoreData, StopIteration) as error:
            self.log.debug("connection ended early: %s", error)
        except RequestTooSlow as error:
            self.handle_error(request, sock, connection.client, error)
        except TimeoutError:
            self.log.debug("the client took no more of its response")
        except OSError as error:
            if error.errno not in _DISCONNECTED:
                self.log.exception("socket error while serving a request")
        except Exception as error:
            # gunicorn's parser and the application's defects; both must be answered.
            self.handle_error(request, sock, connection.client, error)

    def handle_error(self, request: Any, client: Any, address: Any, error: Exception) -> None:
        """Answer what could not be served, in the error shape."""
        answer = TOO_SLOW if isinstance(error, RequestTooSlow) else protocol_answer(error)
        if answer.status >= 500:
            self.log.error("error while serving a request", exc_info=error)
        else:
            self.log.debug("refused a request: %s", answer.message)
        try:
            client.sendall(raw_response(answer))
        except OSError as gone:
            self.log.debug("the client did not take its error: %s", gone)

    def finish_request(self, connection: Connection, future: Future[None]) -> None:
        """End the response of a served connection. Runs on the event loop."""
        if future.cancelled():
            self._close(connection)
            return
        future.result()
        self._linger(connection)

    def murder_pending(self) -> None:
        """End the connections whose client has let its deadline pass."""
        now = time.monotonic()
        for connection in tuple(self._waiting):
            lingering = connection.closing_until is not None
            silent = not lingering and not connection.intake.buffer
            # A stopping worker does not wait for clients that have not begun a request.
            if now < connection.deadline and (self.alive or not silent):
                continue
            self._stop_waiting(connection)
            if lingering or silent:
                self._close(connection)
            else:
                self._refuse_slow(connection)

    def _receive(self, connection: Connection, _sock: Any) -> None:
        try:
            data = connection.sock.recv(READ_AHEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # A reset is an end.
        if not data:
            self._stop_waiting(connection)
            self._close(connection)
        elif connection.intake.feed(data, time.monotonic()):
            self._stop_waiting(connection)
            self.enqueue_req(connection)

    def _refuse_slow(self, connection: Connection) -> None:
        try:
            connection.sock.send(raw_response(TOO_SLOW))
        except OSError as gone:
            self.log.debug("the client did not take its error: %s", gone)
        self._linger(connection)

    def _linger(self, connection: Connection) -> None:
        """Send the end, then wait for the client's.

        Closing on bytes that the client still sends would reset the connection, and the reset
        can overtake the response.
        """
        try:
            connection.sock.shutdown(socket.SHUT_WR)
            connection.sock.setblocking(False)
        except OSError:
            self._close(connection)  # The client has closed already.
            return
        connection.closing_until = time.monotonic() + _LINGER_SECONDS
        self._wait_for(connection, self._discard)

    def _discard(self, connection: Connection, _sock: Any) -> None:
        try:
            data = connection.sock.recv(READ_AHEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # A reset is an end.
        if not data:
            self._stop_waiting(connection)
            self._close(connection)

    def _wait_for(
        self, connection: Connection, readable: Callable[[Connection, Any], None]
    ) -> None:
        self._waiting.add(connection)
        self.poller.register(connection.sock, selectors.EVENT_READ, partial(readable, connection))

    def _stop_waiting(self, connection: Connection) -> None:
        self._waiting.discard(connection)
        self.poller.unregister(connection.sock)

    def _close(self, connection: Connection) -> None:
        self.nr_conns -= 1
        connection.sock.close()


class _GunicornConnection:
    """What gunicorn's `handle_request` reads of a connection."""

    def __init__(self, sock: BoundedSocket, connection: Connection) -> None:
        self.sock = sock
        self.client = connection.client
        self.server = connection.server


def _keep_one_worker(server: Any, new: int, _old: int | None) -> None:
    """Undo what the signal TTIN would do (gunicorn's hook `nworkers_changed`)."""
    if new > 1:
        server.log.error("expected 1 worker, got %d: models and sessions live in one process", new)
        server.num_workers = 1


def _url(address: Any) -> str:
    if isinstance(address, (str, bytes)):
        return f"unix:{address!s}"
    host, port = address[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
