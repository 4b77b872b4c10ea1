"""A session as it leaves the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """One exported conversation (reference, `POST /admin/session/export`).

    Attributes:
        weights_version: tells the weights apart; derived from the model file's content.
        tokens: the committed history that the blob covers.
        blob: the blob in pieces, in order. They are held in memory once; whoever writes them out
            should not join them.
    """

    weights_version: int
    tokens: tuple[int, ...]
    blob: Sequence[bytes | memoryview]

    @property
    def blob_bytes(self) -> int:
        """Length of the whole blob."""
        return sum(memoryview(piece).nbytes for piece in self.blob)
