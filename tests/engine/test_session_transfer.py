"""Export and restore through the step loop (reference, export and restore; scenarios 162-164)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from pantheon.engine.errors import (
    BadSessionBlob,
    GenerationFailed,
    SessionBusy,
    SessionCapacity,
    SessionExportUnsupported,
    SessionNotFound,
    WeightsVersionMismatch,
)
from pantheon.engine.events import Finished
from pantheon.engine.session_blob import BlobTarget
from pantheon.engine.session_transfer import SessionTransfer
from pantheon.engine.snapshot import SessionSnapshot
from tests.engine.toy_device import VOCABULARY, cold, cold_answer
from tests.engine.toy_loop import WAIT_S, ToyLoop, toy_loop

_PAGE = 16


@dataclass
class _Server:
    toy: ToyLoop
    transfer: SessionTransfer


@contextmanager
def _server(
    weights: int = 5, pages: int = 64, max_sessions: int = 4, snapshots: bool = True
) -> Iterator[_Server]:
    with toy_loop(pages=pages, page_size=_PAGE, max_sessions=max_sessions) as toy:
        layout = [np.zeros((1, _PAGE, 1), np.int64)]
        target = BlobTarget("toy", weights, layout, _PAGE, window=512, vocabulary=VOCABULARY)
        transfer = SessionTransfer(toy.loop, toy.cache, toy.device, target, snapshots=snapshots)
        yield _Server(toy, transfer)


def _prompt(size: int, first: int = 0) -> list[int]:
    return [(first + at * 7) % VOCABULARY for at in range(size)]


def _exported(prompt: list[int], weights: int = 5) -> tuple[SessionSnapshot, bytes, list[int]]:
    """A session of another server process, its blob, and its whole history."""
    with _server(weights) as server:
        answer, _ = server.toy.ask(prompt, "s")
        snapshot = server.transfer.export("s")
        return snapshot, b"".join(snapshot.blob), prompt + answer


def test_a_restored_session_goes_on_token_for_token_and_computes_only_what_is_new() -> None:
    """Scenario 162: `cached_tokens` is n_tok on the next turn."""
    snapshot, blob, history = _exported(_prompt(100))
    assert snapshot.tokens == tuple(history[:-1]) and snapshot.blob_bytes == len(blob)
    following = [*history, *_prompt(20, first=9)]
    with _server() as server:
        assert server.transfer.restore("other", blob, list(snapshot.tokens)) == 107
        tokens, cached = server.toy.ask(following, "other")
        assert (tokens, cached) == (cold_answer(following, 8), 107)
        again = [*following, *tokens, 3]
        assert server.toy.ask(again, "other") == (cold_answer(again, 8), 135), "as any other"


def test_a_blob_of_a_restored_session_is_the_blob() -> None:
    snapshot, blob, _ = _exported(_prompt(40))
    with _server() as server:
        server.transfer.restore("s", blob, list(snapshot.tokens))
        again = server.transfer.export("s")
        assert b"".join(again.blob)[-32 - 3 * _PAGE * 8 : -32] == blob[-32 - 3 * _PAGE * 8 : -32]
        assert again.tokens == snapshot.tokens


def test_restore_replaces_the_conversation_it_continues_else_adds_one() -> None:
    snapshot, blob, history = _exported(_prompt(100))
    with _server() as server:
        server.toy.ask(_prompt(30, first=500), "s")
        server.toy.ask(_prompt(100), "s")
        server.transfer.restore("s", blob, list(snapshot.tokens))
        session = server.toy.loop.sessions.find("s")
        assert session is not None
        kept = [conversation.tokens[0] for conversation in session.conversations]
        assert kept == [500, 0]
        assert session.conversations[-1].tokens == tuple(history[:-1])


@pytest.mark.parametrize("order", ["unsupported", "busy", "missing"])
def test_export_is_refused_in_the_references_words(order: str) -> None:
    """Reference, export: 400, 429, 404."""
    with _server(snapshots=order != "unsupported") as server:
        if order == "missing":
            server.toy.ask(_prompt(10))
            with pytest.raises(SessionNotFound):
                server.transfer.export("s")
            server.toy.ask(_prompt(10), "s")
            server.toy.loop.sessions.release("s")
            with pytest.raises(SessionNotFound):
                server.transfer.export("s")
            return
        server.toy.device.gate.clear()
        turn = server.toy.start(_prompt(10), "s")
        if order == "unsupported":
            with pytest.raises(SessionExportUnsupported, match="architecture toy"):
                server.transfer.export("s")
        else:
            with pytest.raises(SessionBusy):
                server.transfer.export("s")
        server.toy.device.gate.set()
        turn.finish()


def test_restore_is_refused_in_the_references_order() -> None:
    """Bad blob, then weights, then capacity; the live session is as it was (scenario 163)."""
    snapshot, blob, _ = _exported(_prompt(100))
    _, foreign, _ = _exported(_prompt(100), weights=6)
    ids = list(snapshot.tokens)
    with _server(max_sessions=1) as server:
        answer, _ = server.toy.ask(_prompt(50), "live")
        for data, tokens, error in [
            (b"", ids, BadSessionBlob),
            (blob[:-1], ids, BadSessionBlob),
            (blob, ids[:-1], BadSessionBlob),
            (foreign[:-1], ids, BadSessionBlob),
            (foreign, ids, WeightsVersionMismatch),
            (blob, ids, SessionCapacity),
        ]:
            with pytest.raises(error):
                server.transfer.restore("new", data, tokens)
            if error is not SessionCapacity:
                with pytest.raises(error):
                    server.transfer.restore("live", data, tokens)
        following = [*_prompt(50), *answer, 1]
        assert server.toy.ask(following, "live")[1] == 57
        server.toy.scheduler.check()


def test_a_restore_that_finds_no_pages_leaves_no_session_behind() -> None:
    snapshot, blob, _ = _exported(_prompt(100))
    with _server(pages=8, max_sessions=1) as server:
        server.toy.device.gate.clear()
        turn = server.toy.start(_prompt(60))
        with pytest.raises(SessionCapacity, match="hold the pages"):
            server.transfer.restore("s", blob, list(snapshot.tokens))
        server.toy.device.gate.set()
        turn.finish()
        assert server.toy.ask(_prompt(9), "another")[1] == 0
        server.transfer.restore("another", blob, list(snapshot.tokens))
        server.toy.scheduler.check()


def test_a_write_that_fails_leaves_nothing_half_restored() -> None:
    """All or nothing; the turns after it are served, from the start."""
    snapshot, blob, history = _exported(_prompt(100))
    with _server() as server:
        server.toy.device.fail_writes_after = 3
        with pytest.raises(RuntimeError, match="fell over"):
            server.transfer.restore("s", blob, list(snapshot.tokens))
        server.toy.device.fail_writes_after = None
        server.toy.scheduler.check()
        assert server.toy.ask(history, "s") == (cold_answer(history, 8), 0)


def test_a_step_that_fails_beside_a_restore_ends_it() -> None:
    snapshot, blob, history = _exported(_prompt(100))
    with _server() as server:
        server.toy.device.gate.clear()
        turn = server.toy.start(_prompt(10), limit=50)
        server.toy.device.fail_next = True
        failures: list[BaseException] = []

        def restore() -> None:
            try:
                server.transfer.restore("s", blob, list(snapshot.tokens))
            except GenerationFailed as error:
                failures.append(error)

        thread = threading.Thread(target=restore)
        thread.start()
        while server.toy.loop._jobs.empty:
            threading.Event().wait(0.001)
        server.toy.device.gate.set()
        turn.finish()
        thread.join(WAIT_S)
        assert len(failures) == 1
        assert server.toy.ask(history, "s") == (cold_answer(history, 8), 0)


def test_pages_are_read_and_written_between_the_steps_of_others() -> None:
    """A stream beside an export of many pages does not stop."""
    with _server() as server:
        server.toy.ask(_prompt(400), "s")
        server.toy.device.gate.clear()
        turn = server.toy.start(_prompt(10), limit=100)
        steps = server.toy.device.decoded
        decoded: list[int] = []
        read_page = server.toy.device.read_page

        def counted(page: int) -> list[np.ndarray]:
            decoded.append(len(steps))
            return read_page(page)

        server.toy.device.read_page = counted  # type: ignore[method-assign]
        snapshots: list[SessionSnapshot] = []
        thread = threading.Thread(target=lambda: snapshots.append(server.transfer.export("s")))
        thread.start()
        while server.toy.loop._jobs.empty:
            threading.Event().wait(0.001)
        server.toy.device.gate.set()
        thread.join(WAIT_S)
        tokens, end = turn.finish()
        assert isinstance(end, Finished) and tokens == cold_answer(_prompt(10), 100)
        assert len(decoded) == 26 and len(snapshots) == 1
        gaps = [after - before for before, after in pairwise(decoded)]
        assert max(gaps) <= 2 and decoded[-1] - decoded[0] >= 20, "one page a step"


def test_pages_that_an_export_reads_are_not_used_again_meanwhile() -> None:
    """The session is released and its pages are wanted while half of them are read."""
    with _server(pages=40) as server:
        answer, _ = server.toy.ask(_prompt(400), "s")
        read_page = server.toy.device.read_page
        reading, go_on = threading.Event(), threading.Event()

        def slow(page: int) -> list[np.ndarray]:
            reading.set()
            assert go_on.wait(WAIT_S)
            return read_page(page)

        server.toy.device.read_page = slow  # type: ignore[method-assign]
        snapshots: list[SessionSnapshot] = []
        thread = threading.Thread(target=lambda: snapshots.append(server.transfer.export("s")))
        thread.start()
        assert reading.wait(WAIT_S)
        server.toy.loop.sessions.release("s")
        large = server.toy.start(_prompt(300, first=3))
        small = server.toy.start(_prompt(20, first=5))
        assert not large.stream.wait_admitted(0), "only fourteen pages are not being read"
        go_on.set()
        thread.join(WAIT_S)
        assert large.finish()[0] == cold_answer(_prompt(300, first=3), 8)
        assert small.finish()[0] == cold_answer(_prompt(20, first=5), 8)
        history = (_prompt(400) + answer)[:-1]
        pages = np.frombuffer(b"".join(snapshots[0].blob)[-32 - 26 * _PAGE * 8 : -32], np.int64)
        assert pages[:407].tolist() == cold(history)[0]
