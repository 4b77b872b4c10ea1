"""Many random requests from several clients, and what the server holds between and after."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from tests.server.process import Server
from tests.server.stress.chats import CANARIES, WINDOW, canary, chat, text_of, unseen_words
from tests.server.stress.client import SHARED, Client
from tests.server.stress.state import Held, held, use_every_page, use_every_session, use_threads
from tests.server.stress.wire import complete
from tests.server.wire import post

CLIENTS = 12
ROWS = 8
SESSIONS = 64
OPTIONS = f",ctx_cap={WINDOW},max_sessions={SESSIONS},max_concurrent={ROWS}"
"""Of the model. There are fewer session slots than sessions that are begun and forgotten."""

ENVIRONMENT = {
    # No request is refused for want of a place in the queue.
    "BS_QUEUE_DEPTH": "128",
    "PN_SESSION_WATCH_GRACE_MS": "200",
    # glibc gives threads arenas of their own, in which freed memory stays: some 50 MiB are taken
    # slowly, whatever the server does. In one arena resident memory follows what is in use.
    "MALLOC_ARENA_MAX": "1",
}

EVERY = 500
"""Requests between two checkpoints."""

WARM = 500
"""Requests after which resident memory must stay."""

MOST_GROWTH = 8 << 20
"""Bytes between two checkpoints after that, where memory grew least. What every request leaves
behind shows between any two checkpoints; what the allocator or a library takes once does not. In
the first 2,000 requests there is much of that where the machine is busy: measured 0 to 4 MiB."""

MOST_GROWTH_IN_THE_END = 1 << 20
"""The same in a run of `LONG` requests: 2 KiB each, what the ids of one prompt and its messages
take."""

LONG = 5000

_THREADS = 48
"""Served at once: four for each client, among them those whose client has just left."""


@dataclass(frozen=True)
class Checkpoint:
    """What was held after so many requests."""

    requests: int
    seconds: float
    held: Held


@dataclass(frozen=True)
class Report:
    """What came of a run."""

    checkpoints: tuple[Checkpoint, ...]
    counts: Counter[str]
    seconds: float

    @property
    def growth(self) -> int:
        """Bytes of resident memory between two checkpoints once warm, where they are fewest; 0 in
        a shorter run."""
        warm = [one.held.resident for one in self.checkpoints if one.requests >= WARM]
        return min((after - before for before, after in pairwise(warm)), default=0)

    @property
    def total_growth(self) -> int:
        """Bytes of resident memory at the end, more than when warm; 0 in a shorter run."""
        warm = [one.held.resident for one in self.checkpoints if one.requests >= WARM]
        return warm[-1] - warm[0] if warm else 0


def stress(server: Server, requests: int, tell: Callable[[Checkpoint], None]) -> Report:
    """Send `requests` requests, in random order and company; check what is held every 500.

    Raises:
        AssertionError: a wrong answer, or something is held that nobody uses, or memory grows.
    """
    use_threads(server, _THREADS)
    complete(server, unseen_words(Random(0)))
    answers = {name: text_of(complete(server, chat(canary(name, False)))) for name in CANARIES}
    clients = [Client(server, number, answers) for number in range(CLIENTS)]
    began = time.monotonic()
    _check(server, clients, answers)
    checkpoints = [Checkpoint(0, 0.0, held(server))]
    while checkpoints[-1].requests < requests:
        done = min(checkpoints[-1].requests + EVERY, requests)
        _send(clients, done - checkpoints[-1].requests)
        _check(server, clients, answers)
        now = held(server, checkpoints[0].held)
        assert now.threads <= checkpoints[0].held.threads, (now, checkpoints[0])
        checkpoints.append(Checkpoint(done, time.monotonic() - began, now))
        tell(checkpoints[-1])
    counts = sum((client.counts for client in clients), Counter())
    report = Report(tuple(checkpoints), counts, time.monotonic() - began)
    resident = [one.held.resident for one in report.checkpoints]
    most = MOST_GROWTH if requests < LONG else MOST_GROWTH_IN_THE_END
    assert report.growth <= most, f"resident memory grew all the time: {resident}"
    return report


def _send(clients: list[Client], count: int) -> None:
    left = iter(range(count))
    lock = threading.Lock()
    failed = threading.Event()

    def work(client: Client) -> None:
        try:
            while not failed.is_set():
                with lock:
                    if next(left, None) is None:
                        return
                client.act()
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(len(clients)) as pool:
        for future in [pool.submit(work, client) for client in clients]:
            future.result()


def _check(server: Server, clients: list[Client], answers: dict[str, str]) -> None:
    """Every row, page and session slot can be used, and the canaries answer as ever."""
    # A request whose client has left may begin its session only now.
    held(server)
    for client in clients:
        client.release_all()
    for session in SHARED:
        exported = post(server, "/admin/session/export", {"session_id": session})
        assert exported.error_type() == "session_not_found", exported
    use_every_page(server, ROWS)
    for name, expected in answers.items():
        assert text_of(complete(server, chat(canary(name, True)))) == expected, name
    assert post(server, "/session/release", {"session_id": "canary"}).status == 200
    use_every_session(server, SESSIONS)
