"""Times and counts read out of recorded streams.

Event shapes: the reference (streaming response) for one server; llama-server's own, recorded from
version 0.6.0-dev, for the other.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.errors import BenchError
from bench.streaming import Answer, read_answer


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _usage(**more: Any) -> dict[str, Any]:
    usage = {
        "prompt_tokens": 38,
        "completion_tokens": 3,
        "total_tokens": 41,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    return {"choices": [], "usage": usage, **more}


def _lines(*events: dict[str, Any] | str, step: float = 1.0) -> list[tuple[float, bytes]]:
    lines: list[tuple[float, bytes]] = []
    for number, event in enumerate(events, 1):
        text = event if isinstance(event, str) else json.dumps(event)
        lines.append((number * step, f"data: {text}\n".encode()))
        lines.append((number * step, b"\n"))
    return lines


ROLE = _delta({"role": "assistant"})
END = _delta({}, "length")


def test_text_is_timed_and_the_role_chunk_is_not_a_token() -> None:
    lines = _lines(
        ROLE, _delta({"content": "Once"}), _delta({"content": " upon"}), END, _usage(), "[DONE]"
    )
    assert read_answer("server", 0.5, lines) == Answer(
        sent=0.5,
        chunks=(2.0, 3.0),
        finished=4.0,
        prompt_tokens=38,
        completion_tokens=3,
        cached_tokens=0,
        computed_tokens=None,
        text="Once upon",
    )


def test_llama_servers_null_content_is_no_token_and_its_timings_are_read() -> None:
    lines = _lines(
        _delta({"role": "assistant", "content": None}),
        _delta({"content": "Once"}),
        END,
        _usage(timings={"cache_n": 0, "prompt_n": 38, "prompt_ms": 358.165}),
        "[DONE]",
    )
    answer = read_answer("llama.cpp", 0.0, lines)
    assert answer.chunks == (2.0,)
    assert answer.computed_tokens == 38


def test_reasoning_is_timed_as_text_and_is_none_of_the_content() -> None:
    lines = _lines(ROLE, _delta({"reasoning_content": "So"}), END, _usage(), "[DONE]")
    answer = read_answer("server", 0.0, lines)
    assert (answer.first_token_seconds, answer.text) == (2.0, "")


def test_a_lone_token_without_text_is_timed_by_the_finish_reason() -> None:
    lines = _lines(ROLE, END, _usage(), "[DONE]")
    assert read_answer("server", 0.5, lines).first_token_seconds == 1.5


def test_comments_and_empty_lines_are_passed_over() -> None:
    lines = [(0.1, b": keep-alive\n"), (0.1, b"\n"), *_lines(END, _usage(), "[DONE]")]
    assert read_answer("server", 0.0, lines).finished == 1.0


def test_an_error_event_is_an_error() -> None:
    lines = _lines(ROLE, {"error": {"type": "context_over_budget", "message": "too long"}})
    with pytest.raises(BenchError, match="context_over_budget"):
        read_answer("server", 0.0, lines)


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b"null"])
def test_an_event_that_is_no_json_object_is_an_error(data: bytes) -> None:
    with pytest.raises(BenchError, match="expected"):
        read_answer("server", 0.0, [(1.0, b"data: " + data + b"\n")])


@pytest.mark.parametrize("missing", range(1, 4))
def test_a_stream_without_finish_usage_or_done_is_an_error(missing: int) -> None:
    events: list[dict[str, Any] | str] = [ROLE, END, _usage(), "[DONE]"]
    del events[missing]
    with pytest.raises(BenchError, match="broke off"):
        read_answer("server", 0.0, _lines(*events))
