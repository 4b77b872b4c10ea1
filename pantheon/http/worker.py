"""The gunicorn worker that Pantheon runs in: gunicorn's threads behind a patient event loop.

What differs from `gthread`: a connection gets a thread only when its request is worth one
(`intake`), and again when a body that is wanted has arrived; a thread never waits for a request,
and no wait on a client is endless (`bounded_socket`); waiting for a client to close costs no
thread; a full table of connections makes room; every connection carries one request; what
gunicorn's own parser refuses is answered in the reference's error shape; and a server that is
told to stop goes on answering until its work is done (`_drain`).
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import selectors
import signal
import sys
import threading
import time
from concurrent.futures import Future
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, NoReturn

from gunicorn.config import Config
from gunicorn.errors import AppImportError
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import ThreadWorker

from pantheon.http.arbiter_signals import install_stop_signals
from pantheon.http.body import BodyWanted
from pantheon.http.bounded_socket import BoundedSocket
from pantheon.http.connection import Connection, GunicornConnection
from pantheon.http.connection_table import ConnectionTable
from pantheon.http.log_lines import OneLine
from pantheon.http.protocol_errors import protocol_answer, raw_response
from pantheon.http.reception import Reception
from pantheon.http.served_application import ServedApplication

_ACCEPTED_AT_ONCE: Final = 64
_EXHAUSTED_PAUSE_SECONDS: Final = 0.05
_OTHER_DESCRIPTORS: Final = 256
"""Descriptors for everything but connections: models, logs, libraries."""

_TURN_SECONDS: Final = 1.0
_STOPPING_TURN_SECONDS: Final = 0.05
"""Longest waits for something to happen before clocks are looked at."""

_CLOSE_SECONDS: Final = 3.0
"""Longest time for responses to end once the engine is told to close: a step, and some."""

_HURRY_SECONDS: Final = 1.0
"""The same on a second signal."""

_DISCONNECTED: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)

IN_WORKER: Final[ContextVar[bool]] = ContextVar("IN_WORKER", default=False)
"""True where an application may start: in the main thread of a process of this worker."""


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn carries no types
    """One process, one event loop, `threads` threads."""

    wsgi: ServedApplication

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hurry = False
        self._listening = True
        self._connections: ConnectionTable
        self._reception: Reception

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
        cfg.set("when_ready", install_stop_signals)

    def init_process(self) -> None:
        """Run the worker; its application may start from here on."""
        IN_WORKER.set(True)
        logger = logging.getLogger("pantheon")
        logger.handlers = list(self.log.error_log.handlers)
        logger.setLevel(self.log.error_log.level)
        logger.propagate = False
        for handler in logger.handlers:
            handler.addFilter(OneLine("pantheon"))
        _allow_descriptors(self.cfg.worker_connections + _OTHER_DESCRIPTORS, self.log)
        # Importing and loading make a million objects that stay: a tenth of a start would go into
        # looking through them again and again.
        gc.disable()
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application.

        Raises:
            AppImportError: it is none that this worker can run.
        """
        super().load_wsgi()
        if not isinstance(self.wsgi, ServedApplication):
            raise AppImportError(f"{__name__}.Worker runs Pantheon applications, got {self.wsgi}")

    def init_signals(self) -> None:
        """Listen to the arbiter alone: a terminal sends its signals to the whole group."""
        super().init_signals()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _leave_to_the_arbiter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain (SIGTERM); while the models load there is nothing to drain."""
        if not self.booted:
            _end_process()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """End at once (SIGQUIT, a second signal of any kind to the arbiter)."""
        self._hurry = True
        self.handle_exit(sig, frame)

    def run(self) -> None:
        """Serve until told to stop; drain; end what is left."""
        gc.enable()
        self._connections = ConnectionTable(self.poller, self.worker_connections)
        self._reception = Reception(self._connections, self.wsgi.limits, self.enqueue_req)
        self.poller.register(
            self.method_queue.fileno(), selectors.EVENT_READ, self.method_queue.run_callbacks
        )
        self.set_accept_enabled(True)
        try:
            self.wsgi.ready(_url(self.sockets[0].getsockname()))
            while self.alive:
                self._turn(_TURN_SECONDS)
            self._drain()
        finally:
            self._close_all()

    def _turn(self, seconds: float) -> None:
        """Wait at most `seconds` for something to happen, and do it."""
        self.notify()
        self.set_accept_enabled(self._listening and self._connections.has_room)
        self.wait_for_and_dispatch_events(seconds)
        # Nobody will send the signal to stop any more, and the port must be free soon.
        if not self._hurry and not self.is_parent_alive():
            self.alive, self._hurry = False, True
        self._reception.end_overdue()

    def _drain(self) -> None:
        """Go on answering, which is refusing now, until what runs has ended or time is up."""
        if self._hurry:
            return
        limit = self.wsgi.limits.drain_timeout
        self.log.info("draining: running answers may take %g s more", limit)
        deadline = time.monotonic() + limit
        served = self._connections.served
        self.wsgi.drain()
        while not self._hurry and time.monotonic() < deadline:
            if self.wsgi.idle and not served & self._connections.served:
                return
            self._turn(_STOPPING_TURN_SECONDS)

    def _close_all(self) -> None:
        """Close the port, the application and, as soon as they are answered, all connections."""
        self.alive = False
        # The last who came in time are let in, and then heard.
        self._turn(0)
        self._listening = False
        self.set_accept_enabled(False)
        for listener in self.sockets:
            listener.close()
        self._turn(0)
        self._reception.end_unfinished()
        # In a thread of its own, for it may wait for a step, and responses end meanwhile.
        closing = threading.Thread(target=self.wsgi.close, name="close", daemon=True)
        closing.start()
        deadline = time.monotonic() + (_HURRY_SECONDS if self._hurry else _CLOSE_SECONDS)
        while (closing.is_alive() or self._connections) and time.monotonic() < deadline:
            self._turn(_STOPPING_TURN_SECONDS)
        if closing.is_alive() or self._connections.served:
            # Threads that cannot be interrupted would hold up an orderly end of the process.
            self.log.warning("ending with %d responses cut", len(self._connections.served))
            _end_process()
        for connection in self._connections.waiting:
            self._connections.close(connection)
        self.tpool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()

    def accept(self, listener: Any) -> None:
        """Take the new connections, some at a time, and wait for their requests."""
        for _ in range(_ACCEPTED_AT_ONCE):
            if not self._connections.has_room:
                return
            try:
                sock, client = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self.log.warning("no descriptor left for a new connection: %s", error)
                if not self._reception.give_up_one():
                    time.sleep(_EXHAUSTED_PAUSE_SECONDS)
                return
            self._reception.receive(sock, client, listener.getsockname())

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
            self._connections.close(connection)
            return
        body_limit = future.result()
        if body_limit is None:
            self._reception.linger(connection)
        else:
            self._reception.await_body(connection, body_limit)


def _keep_one_worker(server: Any, new: int, _old: int | None) -> None:
    """Undo what the signal TTIN would do (gunicorn's hook `nworkers_changed`)."""
    if new > 1:
        server.log.error("expected 1 worker, got %d: models and sessions live in one process", new)
        server.num_workers = 1


def _allow_descriptors(wanted: int, log: Any) -> None:
    """Raise the process's own limit on open files to `wanted`, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    if allowed < wanted:
        log.warning(
            "expected at least %d open files to be allowed, got %d: connections that dawdle are "
            "closed when there are no more",
            wanted,
            allowed,
        )


def _leave_to_the_arbiter(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; unlike SIG_IGN it is not inherited by a program that is started from here."""


def _end_process() -> NoReturn:
    """End at once, without waiting for any thread."""
    sys.stdout.flush()
    os._exit(0)


def _url(address: Any) -> str:
    if isinstance(address, (str, bytes)):
        return f"unix:{address!s}"
    host, port = address[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
