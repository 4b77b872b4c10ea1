"""One streamed chat completion, timed chunk by chunk.

Lines are kept with their times of arrival and read only after the stream's end: the load
generator shares its cores with the server that it measures.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bench.errors import BenchError
from bench.servers import HOST, Server

REQUEST_SECONDS: Final = 600.0
_READ_SECONDS: Final = 300.0
"""A long prefill beside a stream says nothing until its end."""

_MAX_LINE: Final = 1 << 20
_MAX_LINES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Times in seconds of one clock, counts in tokens.

    Attributes:
        sent: when the request was written.
        chunks: arrival of each piece of text.
        finished: arrival of the finish reason.
        computed_tokens: prompt tokens that the server says it computed, where it tells.
        text: the content, joined.
    """

    sent: float
    chunks: tuple[float, ...]
    finished: float
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    computed_tokens: int | None
    text: str = ""

    @property
    def first_token_seconds(self) -> float:
        """Time to the first text. A lone token may have none: then to the finish reason."""
        return (self.chunks[0] if self.chunks else self.finished) - self.sent


def ask(server: Server, prompt: str, max_tokens: int) -> Answer:
    """Send one user message and read its greedy answer to the end.

    Raises:
        BenchError: an error answer, a stream that breaks off, or time is up.
    """
    return ask_chat(server, [{"role": "user", "content": prompt}], max_tokens, server.extra)


def ask_chat(
    server: Server,
    messages: Sequence[Mapping[str, str]],
    max_tokens: int,
    fields: Mapping[str, Any],
) -> Answer:
    """The same for a conversation.

    Args:
        fields: further members of the body.

    Raises:
        BenchError: as `ask`.
    """
    lines = []
    with opened(server, messages, max_tokens, fields) as (sent, stream):
        for now, line in stream:
            lines.append((now, line))
            if now - sent > REQUEST_SECONDS or len(lines) > _MAX_LINES:
                raise BenchError(f"{server.name}: an answer of {max_tokens} tokens does not end")
    return read_answer(server.name, sent, lines)


@contextmanager
def opened(
    server: Server,
    messages: Sequence[Mapping[str, str]],
    max_tokens: int,
    fields: Mapping[str, Any],
) -> Iterator[tuple[float, Iterator[tuple[float, bytes]]]]:
    """A greedy answer that has begun: when it was asked for, and its lines with their times.

    The connection is closed with the block, which breaks an unfinished answer off.

    Raises:
        BenchError: an error answer, or the connection fails in the block.
    """
    body = {
        "messages": list(messages),
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }
    connection = http.client.HTTPConnection(HOST, server.port, timeout=_READ_SECONDS)
    try:
        connection.connect()
        sent = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(_MAX_LINE).decode("utf-8", "replace")
            raise BenchError(f"{server.name} answered {response.status}: {text}")
        yield sent, _lines(response)
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{server.name}: the request failed: {error!r}") from error
    finally:
        connection.close()


def _lines(response: http.client.HTTPResponse) -> Iterator[tuple[float, bytes]]:
    while line := response.readline(_MAX_LINE):
        yield time.perf_counter(), line


def read_answer(name: str, sent: float, lines: Sequence[tuple[float, bytes]]) -> Answer:
    """Read the lines of a server-sent stream, each with its time of arrival.

    Raises:
        BenchError: an error event, or a stream without a finish reason, usage or `[DONE]`.
    """
    chunks: list[float] = []
    texts: list[str] = []
    finished: float | None = None
    done = False
    usage: dict[str, Any] = {}
    timings: dict[str, Any] = {}
    for at, line in lines:
        data = line.strip()
        if not data.startswith(b"data:"):
            continue
        data = data[len(b"data:") :].strip()
        if data == b"[DONE]":
            done = True
            break
        try:
            event = json.loads(data)
        except ValueError as error:
            raise BenchError(f"{name}: expected JSON in an event, got {data[:200]!r}") from error
        if not isinstance(event, dict) or "error" in event:
            raise BenchError(f"{name}: expected a chunk, got {data[:500]!r}")
        usage = event.get("usage") or usage
        timings = event.get("timings") or timings
        for choice in event.get("choices", ()):
            content = choice["delta"].get("content")
            if content or choice["delta"].get("reasoning_content"):
                chunks.append(at)
                texts.append(content or "")
            if choice.get("finish_reason"):
                finished = at
    if finished is None or not usage or not done:
        raise BenchError(f"{name}: the stream broke off after {len(lines)} lines")
    details = usage.get("prompt_tokens_details") or {}
    return Answer(
        sent=sent,
        chunks=tuple(chunks),
        finished=finished,
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        cached_tokens=details.get("cached_tokens", 0),
        computed_tokens=timings.get("prompt_n"),
        text="".join(texts),
    )
