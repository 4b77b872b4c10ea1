"""An answer that goes on in the background until it is told to stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from bench.errors import BenchError
from bench.servers import Server
from bench.streaming import opened
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import Vocabulary

_POLL_SECONDS: Final = 0.05
_END_SECONDS: Final = 10.0


def endless_fields(model: Path) -> dict[str, Any]:
    """Members of a body whose answer does not end by itself: its end tokens are forbidden."""
    with GGUFFile(model) as file:
        ends = Vocabulary.from_metadata(file.metadata).end_ids
    return {"logit_bias": {str(token): -100 for token in sorted(ends)}}


class RunningStream:
    """Reads an answer on a thread of its own, from entering the block to its end."""

    def __init__(
        self, server: Server, prompt: str, max_tokens: int, fields: Mapping[str, Any]
    ) -> None:
        self._server = server
        self._messages = [{"role": "user", "content": prompt}]
        self._max_tokens = max_tokens
        self._fields = {**server.extra, **fields}
        self._stop = threading.Event()
        self._error: BenchError | None = None
        self._lines: list[tuple[float, bytes]] = []
        self._thread = threading.Thread(target=self._read, name="running stream", daemon=True)

    def __enter__(self) -> RunningStream:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(_END_SECONDS)

    def texts(self) -> tuple[float, ...]:
        """When each piece of text came so far, by `time.perf_counter`."""
        return tuple(at for at, line in tuple(self._lines) if _has_text(line))

    def wait_for(self, texts: int, seconds: float) -> None:
        """Wait until so many pieces have come.

        Raises:
            BenchError: the answer failed or ended, or time is up.
        """
        deadline = time.monotonic() + seconds
        while len(self._lines) < texts or len(self.texts()) < texts:
            self.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{self._server.name}: no {texts} texts within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def check(self) -> None:
        """Raise BenchError unless the answer still goes on."""
        if self._error is not None:
            raise self._error
        if not self._thread.is_alive():
            raise BenchError(f"{self._server.name}: the running answer ended too early")

    def _read(self) -> None:
        try:
            with opened(self._server, self._messages, self._max_tokens, self._fields) as (_, lines):
                for line in lines:
                    self._lines.append(line)
                    if self._stop.is_set():
                        return
        except BenchError as error:
            self._error = error


def _has_text(line: bytes) -> bool:
    data = line.strip().removeprefix(b"data:").strip()
    if not data.startswith(b"{"):
        return False
    choices = json.loads(data).get("choices") or ()
    return any(choice["delta"].get("content") for choice in choices)
