"""One client of the stress run: conversations, session routes, and leaving early."""

from __future__ import annotations

import base64
import socket
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tests.server.process import Server
from tests.server.stress.chats import (
    CANARIES,
    cached_tokens,
    canary,
    chat,
    overflow,
    random_fields,
    refusal_of,
    sentence,
    text_of,
)
from tests.server.stress.wire import TIMEOUT_S, break_off, call, complete
from tests.server.wire import Answer, connect, post, request_bytes

SHARED = ("shared-0", "shared-1", "shared-2")
"""Sessions that all clients use, at the same time."""

_MOST_OPEN = 3
"""Conversations of a client that go on; a further one ends the oldest."""

_BUSY = frozenset({"model_at_session_capacity"})


class Client:
    """Does one random thing after another; the same things for the same number."""

    def __init__(self, server: Server, number: int, canaries: dict[str, str]) -> None:
        """Talk to a server.

        Args:
            canaries: what each canary is answered.
        """
        self.counts: Counter[str] = Counter()
        self._server = server
        self._number = number
        self._random = Random(number)
        self._canaries = canaries
        self._made = 0
        self._open: dict[str, list[dict[str, str]]] = {}
        self._begun = {*SHARED, "canary", "overflow"}

    def act(self) -> None:
        """One request, or the few that belong together."""
        actions: tuple[tuple[Callable[[], None], int], ...] = (
            (self._anonymous, 40),
            (self._turn, 34),
            (self._shared, 8),
            (self._canary, 4),
            (self._overflow, 3),
            (self._refused, 2),
            (self._release, 2),
            (lambda: self._move(self._random.choice(SHARED)), 1),
            (self._watch, 2),
            (self._look, 2),
        )
        (action,) = self._random.choices(*zip(*actions, strict=True))
        action()

    def release_all(self) -> None:
        """End every session that this client has begun, also those that it has left."""
        for session in sorted(self._begun):
            self._released(session)
        self._begun = {*SHARED, "canary", "overflow"}
        self._open.clear()

    def _anonymous(self) -> None:
        body = {"messages": [self._user()], **random_fields(self._random)}
        self._chat(body, leaves=0.35)

    def _turn(self) -> None:
        """The next turn of a conversation, the first of a new one, or one that was broken off."""
        if len(self._open) < _MOST_OPEN or self._random.random() < 0.1:
            self._open[self._new_id()] = []
        session = self._random.choice(list(self._open))
        history = self._open[session]
        messages = [*history, self._user()]
        body = {"messages": messages, "session_id": session, **random_fields(self._random)}
        answer = self._chat(body, leaves=0.25, refusals=_BUSY | {"context_over_budget"})
        refusal = None if answer is None else refusal_of(answer)
        if answer is not None and refusal is None:
            history[:] = [*messages, {"role": "assistant", "content": text_of(answer)}]
            self.counts["turn with cached tokens"] += cached_tokens(answer) > 0
            if self._random.random() < 0.15:
                self._move(session)
        elif refusal == "context_over_budget":
            self._end(session)
        if len(self._open) > _MOST_OPEN:
            self._end(next(iter(self._open)))

    def _shared(self) -> None:
        """A session in which others have their turns too; one of few openings."""
        opening = {"role": "user", "content": " ".join(["common"] * self._random.randint(1, 60))}
        messages = [opening, {"role": "assistant", "content": "yes"}, self._user()]
        session = self._random.choice(SHARED)
        body = {"messages": messages, "session_id": session, **random_fields(self._random)}
        self._chat(body, leaves=0.35, refusals=_BUSY)

    def _canary(self) -> None:
        name = self._random.choice(list(CANARIES))
        body = canary(name, stream=self._random.random() < 0.5)
        answer = complete(self._server, chat(body, refusals=_BUSY))
        if answer.status == 200:
            assert text_of(answer) == self._canaries[name], name
        self._count("canary", answer)

    def _overflow(self) -> None:
        self._count("overflow", complete(self._server, overflow(self._random)))

    def _refused(self) -> None:
        answer = post(self._server, "/v1/chat/completions", {"messages": []}, timeout=TIMEOUT_S)
        assert answer.status == 400, answer
        self._count("malformed", answer)

    def _release(self) -> None:
        session = self._random.choice((*self._open, *SHARED, "never-seen"))
        self._released(session)
        self._open.pop(session, None)

    def _move(self, session: str) -> None:
        """Export a session and restore it, whole or damaged, under the same or another id."""
        exported = post(
            self._server, "/admin/session/export", {"session_id": session}, timeout=TIMEOUT_S
        )
        self._count("export", exported)
        if exported.status != 200:
            assert exported.error_type() in {"session_not_found", "session_busy"}, exported
            return
        found = exported.json()
        blob = bytearray(base64.b64decode(found["blob_b64"]))
        assert len(blob) == found["blob_bytes"]
        damaged = self._random.random() < 0.3
        if damaged:
            blob[self._random.randrange(len(blob))] ^= 1 << self._random.randrange(8)
        target = session if self._random.random() < 0.5 else self._new_id()
        body = {
            "session_id": target,
            "blob": base64.b64encode(blob).decode(),
            "tokens": found["tokens"],
        }
        restored = post(self._server, "/session/restore", body, timeout=TIMEOUT_S)
        self._count("restore", restored)
        if damaged:
            # A bit of the fingerprint in the header tells of other weights.
            kinds = {"bad_session_blob", "weights_version_mismatch"}
            assert restored.error_type() in kinds, restored
            return
        if restored.status != 200:
            assert restored.error_type() in _BUSY, restored
            return
        assert restored.json()["n_tok"] == found["n_tok"]
        if target not in (session, *SHARED):
            self._open[target] = list(self._open.get(session, ()))

    def _watch(self) -> None:
        """Hold a session for a moment, here beside another chat."""
        session = self._random.choice((*self._open, *SHARED, "never-seen"))
        path = f"/session/watch?session_id={session}"
        with connect(self._server, TIMEOUT_S) as sock:
            sock.sendall(request_bytes("GET", path))
            if self._random.random() < 0.7:
                _read_until(sock, b"watch established")
                time.sleep(self._random.uniform(0, 0.1))
        self.counts["watch"] += 1

    def _look(self) -> None:
        path = self._random.choice(
            ("/", "/v1/models", "/admin/models", "/admin/dies", "/session/estimate?tokens=1000")
        )

        def check(answer: Answer) -> None:
            assert answer.status == 200, answer

        self._count("look", complete(self._server, call("look", "GET", path, None, check)))

    def _chat(
        self, body: dict[str, Any], *, leaves: float, refusals: frozenset[str] = frozenset()
    ) -> Answer | None:
        """A chat, broken off with the chance `leaves`; None when it was."""
        one = chat(body, refusals=refusals)
        if self._random.random() < leaves:
            self.counts[f"left: {break_off(self._server, one, self._random)}"] += 1
            return None
        answer = complete(self._server, one)
        self._count("stream" if body["stream"] else "JSON", answer)
        return answer

    def _end(self, session: str) -> None:
        """Leave a conversation, mostly without a word."""
        del self._open[session]
        if self._random.random() < 0.7:
            self._released(session)

    def _released(self, session: str) -> None:
        answer = post(self._server, "/session/release", {"session_id": session}, timeout=TIMEOUT_S)
        assert answer.json() == {"released": True, "session_id": session}, answer
        self._count("release", answer)

    def _new_id(self) -> str:
        self._made += 1
        session = f"{self._number}-{self._made}"
        self._begun.add(session)
        return session

    def _user(self) -> dict[str, str]:
        return {"role": "user", "content": sentence(self._random)}

    def _count(self, kind: str, answer: Answer) -> None:
        refusal = refusal_of(answer)
        self.counts[kind if refusal is None else f"{kind}: {refusal}"] += 1


def _read_until(sock: socket.socket, wanted: bytes) -> None:
    data = b""
    while wanted not in data:
        part = sock.recv(4096)
        assert part, data
        data += part
