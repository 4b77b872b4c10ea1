"""The gunicorn worker that Pantheon runs in: gunicorn's threads behind a patient event loop.

What differs from `gthread`: a connection gets a thread only when its request is worth one
(`intake`), and again when a body that is wanted has arrived; a thread never waits for a request,
and no wait on a client is endless (`bounded_socket`); waiting for a client to close costs no
thread; every connection carries one request; and what gunicorn's own parser refuses is answered
in the reference's error shape.
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
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import ThreadWorker

from pantheon.http.body import BodyWanted
from pantheon.http.bounded_socket import BoundedSocket
from pantheon.http.connection import Connection, GunicornConnection
from pantheon.http.errors import ErrorAnswer
from pantheon.http.intake import READ_AHEAD, Intake
from pantheon.http.limits import ConnectionLimits
from pantheon.http.protocol_errors import TOO_MANY_BODIES, TOO_SLOW, protocol_answer, raw_response

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LARGE_REQUESTS_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of requests over READ_AHEAD that no thread has taken, beside one at its limit."""

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


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn carries no types
    """One process, one event loop, `threads` threads."""

    wsgi: ServedApplication

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: set[Connection] = set()
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
        self._open.add(connection)
        self._wait_for(connection, self._receive)

    def handle(self, connection: Connection) -> int | None:
        """Serve the request of a connection. Runs in a thread of the pool.

        Returns:
            The limit in bytes of a body that must arrive first; None when the request is answered.
        """
        request, intake = None, connection.intake
        sock = BoundedSocket(
            connection.sock,
            intake.take() if intake.complete else intake.buffer,
            self.wsgi.limits.send_timeout,
        )
        try:
            request = next(RequestParser(self.cfg, sock, connection.client))
            # gunicorn would tell the client to go on before anything is judged.
            connection.expects_continue = request._expected_100_continue
            request._expected_100_continue = False
            self.handle_request(request, GunicornConnection(sock, connection))
        except StopIteration:
            self.log.debug("the response broke off")  # gunicorn has logged why.
        except BodyWanted as error:
            if not intake.complete:
                return error.limit
            self.handle_error(request, sock, connection.client, error)
        except TimeoutError:
            self.log.debug("the client took no more of its response")
        except OSError as error:
            if error.errno not in _DISCONNECTED:
                self.log.exception("socket error while serving a request")
        except Exception as error:
            # gunicorn's parser and the application's defects; both must be answered.
            self.handle_error(request, sock, connection.client, error)
        return None

    def handle_error(self, request: Any, client: Any, address: Any, error: Exception) -> None:
        """Answer what could not be served, in the error shape."""
        answer = protocol_answer(error)
        if answer.status >= 500:
            self.log.error("error while serving a request", exc_info=error)
        else:
            self.log.debug("refused a request: %s", answer.message)
        try:
            client.sendall(raw_response(answer))
        except OSError as gone:
            self.log.debug("the client did not take its error: %s", gone)

    def finish_request(self, connection: Connection, future: Future[int | None]) -> None:
        """Go on with a connection that a thread has left. Runs on the event loop."""
        if future.cancelled():
            self._close(connection)
            return
        body_limit = future.result()
        if body_limit is None:
            self._linger(connection)
        else:
            self._await_body(connection, body_limit)

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
                self._refuse(connection, TOO_SLOW)

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
        elif self._exceeds_memory(connection.intake):
            self._stop_waiting(connection)
            self._refuse(connection, TOO_MANY_BODIES)

    def _await_body(self, connection: Connection, limit: int) -> None:
        connection.intake.body_limit = limit
        try:
            connection.sock.setblocking(False)
            if connection.expects_continue:
                connection.sock.send(_CONTINUE)
        except OSError as gone:
            self.log.debug("the client left before its body: %s", gone)
            self._close(connection)
            return
        self._wait_for(connection, self._receive)

    def _exceeds_memory(self, intake: Intake) -> bool:
        """Whether a large request must go, because such requests together are too large."""
        if intake.body_limit is None or len(intake.buffer) <= READ_AHEAD:
            return False
        sizes = (len(connection.intake.buffer) for connection in self._open)
        total = sum(size for size in sizes if size > READ_AHEAD)
        return total > _LARGE_REQUESTS_BYTES + intake.body_limit

    def _refuse(self, connection: Connection, answer: ErrorAnswer) -> None:
        try:
            connection.sock.send(raw_response(answer))
        except OSError as gone:
            self.log.debug("the client did not take its error: %s", gone)
        self._linger(connection)

    def _linger(self, connection: Connection) -> None:
        """Send the end, then wait for the client's.

        Closing on bytes that the client still sends would reset the connection, and the reset
        can overtake the response.
        """
        connection.intake.take()
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
        self._open.discard(connection)
        connection.sock.close()


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
