"""Sessions out of the cache and into it, page by page between the steps of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pantheon.engine.cache import PrefixCache, SessionSlotsFull
from pantheon.engine.errors import (
    SessionBusy,
    SessionCapacity,
    SessionExportUnsupported,
    SessionNotFound,
)
from pantheon.engine.session_blob import (
    BlobHeader,
    BlobTarget,
    Page,
    decode_blob,
    encode_blob,
    layout_of,
)
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.step_runner import StepRunner


class SessionTransfer:
    """Export and restore for one model. Safe to use from any thread."""

    def __init__(
        self, loop: StepLoop, cache: PrefixCache, runner: StepRunner, target: BlobTarget
    ) -> None:
        """Work on the cache of a loop, under its lock, through its runner, on its thread."""
        self._loop = loop
        self._cache = cache
        self._runner = runner
        self._target = target

    @property
    def largest_blob_bytes(self) -> int:
        """Most bytes that a blob for this model can have."""
        return self._target.largest_blob_bytes

    def export(self, session_id: str) -> SessionSnapshot:
        """Copy the most recently used conversation of a session to the host.

        Raises:
            SessionExportUnsupported: the model has recurrent layers, whose states the format
                does not hold.
            SessionNotFound: there is no live session of that id with anything computed.
            SessionBusy: a turn is in flight on it.
        """
        if self._cache.recurrent:
            raise SessionExportUnsupported(
                f"sessions of architecture {self._target.architecture} cannot be exported: "
                "there is no snapshot format for its recurrent states"
            )
        with self._loop.lock:
            session = self._loop.sessions.find(session_id)
            if session is not None and session.turns:
                raise SessionBusy("a turn is in flight on this session; retry after it")
            if session is None or not session.conversations:
                raise SessionNotFound("there is no live session of that id")
            conversation = session.conversations[-1]
            lease = self._cache.borrow(conversation)
            if lease is None:
                raise SessionBusy("running requests may need the session's pages; retry later")
        pages: list[Page] = []
        try:
            self._loop.perform(self._read(conversation.pages, pages))
        finally:
            with self._loop.lock:
                self._cache.settle(lease)
        held = conversation.held
        tokens = conversation.tokens[:held]
        header = BlobHeader(
            architecture=self._target.architecture,
            weights_version=self._target.weights_version,
            n_tok=held,
            prompt_tokens=min(conversation.prompt_tokens, held),
            answer_ends=[end for end in conversation.answer_ends if end <= held],
            layout=layout_of(self._target.layout),
        )
        blob = encode_blob(header, tokens, pages, self._target.page_size)
        return SessionSnapshot(self._target.weights_version, tokens, blob)

    def restore(self, session_id: str, blob: bytes, tokens: Sequence[int]) -> int:
        """Put an exported conversation into a session; its number of tokens.

        Raises:
            BadSessionBlob, WeightsVersionMismatch: see `decode_blob`.
            SessionCapacity: there is no free session slot, or running requests hold the pages.
        """
        header, pages = decode_blob(blob, tokens, self._target)
        history = tuple(tokens)
        with self._loop.lock:
            try:
                session = self._loop.sessions.require(session_id)
            except SessionSlotsFull:
                raise SessionCapacity(
                    "every session slot of the model holds a live session; release one or retry"
                ) from None
            # Room is made by forgetting others; what it continues is forgotten last.
            lease = self._cache.take(header.n_tok)
            if lease is None:
                raise SessionCapacity("running requests hold the pages that the session needs")
            self._loop.sessions.begin_turn(session)
        kept = 0
        try:
            self._loop.perform(self._write(lease.pages, pages))
            kept = header.n_tok
        finally:
            with self._loop.lock:
                self._cache.continue_at(lease, session, history)
                self._cache.settle(
                    lease,
                    session,
                    history,
                    held=kept,
                    prompt_tokens=header.prompt_tokens,
                    answer_ends=tuple(header.answer_ends),
                )
                self._loop.sessions.end_turn(session)
        return header.n_tok

    def _read(self, numbers: Sequence[int], pages: list[Page]) -> Iterator[None]:
        for number in numbers:
            pages.append([np.array(part) for part in self._runner.read_page(number)])
            yield

    def _write(self, numbers: Sequence[int], pages: Sequence[Page]) -> Iterator[None]:
        for number, page in zip(numbers, pages, strict=True):
            self._runner.write_page(number, page)
            yield
