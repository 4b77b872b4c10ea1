"""Sessions out of the cache and into it, page by page between the steps of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pantheon.engine.cache import (
    CHECKPOINT_GRID,
    Checkpoint,
    Conversation,
    PrefixCache,
    SessionSlotsFull,
    latest,
)
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
    State,
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
        self,
        loop: StepLoop,
        cache: PrefixCache,
        runner: StepRunner,
        target: BlobTarget,
        *,
        snapshots: bool = True,
    ) -> None:
        """Work on the cache of a loop, under its lock, through its runner, on its thread.

        Args:
            snapshots: whether pages and states are all that a session is; else no session can
                be exported.
        """
        self._loop = loop
        self._cache = cache
        self._runner = runner
        self._target = target
        self.snapshots = snapshots

    @property
    def largest_blob_bytes(self) -> int:
        """Most bytes that a blob for this model can have."""
        return self._target.largest_blob_bytes

    def export(self, session_id: str) -> SessionSnapshot:
        """Copy the most recently used conversation of a session to the host.

        Raises:
            SessionExportUnsupported: the format does not hold all that the model remembers.
            SessionNotFound: there is no live session of that id with anything computed.
            SessionBusy: a turn is in flight on it.
        """
        if not self.snapshots:
            raise SessionExportUnsupported(
                f"sessions of architecture {self._target.architecture} cannot be exported: "
                "there is no snapshot format for all that it remembers"
            )
        with self._loop.lock:
            session = self._loop.sessions.find(session_id)
            if session is not None and session.turns:
                raise SessionBusy("a turn is in flight on this session; retry after it")
            if session is None or not session.conversations:
                raise SessionNotFound("there is no live session of that id")
            conversation = session.conversations[-1]
            checkpoints = _exported_checkpoints(conversation)
            held = conversation.held
            if self._cache.recurrent:
                if not checkpoints:
                    raise SessionNotFound("nothing is kept from which this session could resume")
                held = checkpoints[-1].tokens
            lease = self._cache.borrow(conversation)
            if lease is None:
                raise SessionBusy("running requests may need the session's pages; retry later")
        pages: list[Page] = []
        states: list[State] = []
        used = conversation.pages[: -(-held // self._target.page_size)]
        try:
            self._loop.perform(self._read(used, pages, checkpoints, states))
        finally:
            with self._loop.lock:
                self._cache.settle(lease)
        tokens = conversation.tokens[:held]
        header = BlobHeader(
            architecture=self._target.architecture,
            weights_version=self._target.weights_version,
            n_tok=held,
            prompt_tokens=min(conversation.prompt_tokens, held),
            answer_ends=[end for end in conversation.answer_ends if end <= held],
            layout=layout_of(self._target.layout),
            checkpoints=[one.tokens for one in checkpoints],
            state_layout=layout_of(self._target.state_layout),
        )
        blob = encode_blob(header, tokens, pages, self._target.page_size, states)
        return SessionSnapshot(self._target.weights_version, tokens, blob)

    def restore(self, session_id: str, blob: bytes, tokens: Sequence[int]) -> int:
        """Put an exported conversation into a session; its number of tokens.

        Raises:
            BadSessionBlob, WeightsVersionMismatch: see `decode_blob`.
            SessionCapacity: there is no free session slot, or running requests hold the pages
                or the places of states.
        """
        header, pages, states = decode_blob(blob, tokens, self._target)
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
            # The one after the last token first: without the other there is less to resume from.
            slots = [self._cache.checkpoint(lease, at) for at in reversed(header.checkpoints)]
            if header.checkpoints and slots[0] is None:
                self._cache.settle(lease)
                raise SessionCapacity("running requests hold the states that the session needs")
            self._loop.sessions.begin_turn(session)
        kept = 0
        try:
            self._loop.perform(self._write(lease.pages, pages, slots[::-1], states))
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

    def _read(
        self,
        numbers: Sequence[int],
        pages: list[Page],
        checkpoints: Sequence[Checkpoint],
        states: list[State],
    ) -> Iterator[None]:
        for number in numbers:
            pages.append([np.array(part) for part in self._runner.read_page(number)])
            yield
        for checkpoint in checkpoints:
            states.append([np.array(part) for part in self._runner.read_state(checkpoint.slot)])
            yield

    def _write(
        self,
        numbers: Sequence[int],
        pages: Sequence[Page],
        slots: Sequence[int | None],
        states: Sequence[State],
    ) -> Iterator[None]:
        for number, page in zip(numbers, pages, strict=True):
            self._runner.write_page(number, page)
            yield
        for slot, state in zip(slots, states, strict=True):
            if slot is not None:
                self._runner.write_state(slot, state)
                yield


def _exported_checkpoints(conversation: Conversation) -> list[Checkpoint]:
    """The last state, and the last on the grid that is inside the prompt; none without states.

    The next turn parts there where the client drops the answer or changes it.
    """
    within = [one for one in conversation.checkpoints if one.tokens <= conversation.held]
    last = latest(within, conversation.held)
    if last is None:
        return []
    on_grid = [one for one in within if one.tokens % CHECKPOINT_GRID == 0]
    before = latest(on_grid, min(last.tokens - 1, conversation.prompt_tokens))
    return [last] if before is None else [before, last]
