"""What chunks and messages carry (reference, both responses)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec import UNSET

from pantheon.engine import CompletionRequest
from pantheon.engine.testing import (
    Script,
    ScriptedCompletion,
    ScriptedEngine,
    scripted_logprob,
)
from pantheon.generated.models import ChatCompletionChunk
from pantheon.generated.operations import SseComment, SseSentinel
from pantheon.handlers.chat import ChatOptions
from tests.handlers.calls import Client, create, engine_that, stream

JSON = {"type": "json_object"}


def chunks_of(script: Script, **fields: Any) -> list[Any]:
    events = list(stream(engine_that(script), **fields))
    assert events.pop() is SseSentinel.DONE
    return events


def test_reasoning_precedes_content_in_both_forms() -> None:
    script = Script(tokens=("c", " d"), reasoning=("a", " b"))
    message = create(engine_that(script)).body.choices[0].message
    assert (message.reasoning_content, message.content) == ("a b", "c d")
    deltas = [chunk.choices[0].delta for chunk in chunks_of(script)[1:-1]]
    assert [delta.reasoning_content for delta in deltas] == ["a", " b", UNSET, UNSET]
    assert [delta.content for delta in deltas] == [UNSET, UNSET, "c", " d"]


def test_reasoning_is_absent_when_there_is_none() -> None:
    message = create(engine_that(Script(tokens=("c",)))).body.choices[0].message
    assert message.reasoning_content is UNSET


def test_answer_of_reasoning_alone_has_an_empty_content() -> None:
    message = create(engine_that(Script(reasoning=("a",)))).body.choices[0].message
    assert (message.reasoning_content, message.content) == ("a", "")


def test_repetition_loop_is_the_reason_in_both_forms() -> None:
    script = Script(tokens=("a", "a"), ends_as="repetition_loop")
    assert create(engine_that(script)).body.choices[0].finish_reason == "repetition_loop"
    assert chunks_of(script)[-1].choices[0].finish_reason == "repetition_loop"


def test_logprobs_are_on_the_choice_when_asked_for() -> None:
    engine = engine_that(Script(tokens=("a", " b"), reasoning=("x",)))
    choice = create(engine, logprobs=True, top_logprobs=2).body.choices[0]
    assert [(t.token, t.logprob, t.bytes) for t in choice.logprobs.content] == [
        ("a", -0.5, [97]),
        (" b", -0.5, [32, 98]),
    ]
    for token in choice.logprobs.content:
        assert [other.logprob for other in token.top_logprobs] == [-1.0, -2.0]
        assert all(other.bytes == list(b"alternative") for other in token.top_logprobs)
    assert create(engine).body.choices[0].logprobs is UNSET


def test_logprobs_of_an_empty_answer_are_an_empty_list() -> None:
    choice = create(engine_that(Script()), logprobs=True).body.choices[0]
    assert choice.logprobs.content == []


@pytest.mark.parametrize("per_event", [1, 2, 3])
def test_logprobs_ride_the_chunk_that_carries_their_tokens(per_event: int) -> None:
    tokens = ("a", " b", " c")
    script = Script(tokens=tokens, reasoning=("x",), tokens_per_event=per_event)
    role, reasoning, *deltas, closing = chunks_of(script, logprobs=True)
    for chunk in (role, reasoning, closing):
        assert chunk.choices[0].logprobs is UNSET
    for chunk in deltas:
        text = "".join(token.token for token in chunk.choices[0].logprobs.content)
        assert text == chunk.choices[0].delta.content
    joined = [t.token for chunk in deltas for t in chunk.choices[0].logprobs.content]
    assert joined == list(tokens)


def test_token_without_text_still_brings_its_logprob() -> None:
    (delta,) = chunks_of(Script(tokens=("",)), logprobs=True)[1:-1]
    assert delta.choices[0].delta.content == ""
    assert [token.token for token in delta.choices[0].logprobs.content] == [""]
    assert scripted_logprob("", 0).data == b""


@pytest.mark.parametrize(
    ("wanted", "script", "fields", "status"),
    [
        (JSON, Script(tokens=("{}",)), {}, "applied"),
        (JSON, Script(tokens=("{",), format_closed=False), {}, "not_enforced"),
        (JSON, Script(tokens=("{", "}")), {"max_tokens": 1}, "not_enforced"),
        ({"type": "json_schema"}, Script(tokens=("{}",)), {}, "schema_downgraded"),
        ({"type": "text"}, Script(tokens=("x",)), {"max_tokens": 1}, "applied"),
        ({"type": "x"}, Script(tokens=("x",)), {}, "ignored_unknown_type"),
        (
            JSON,
            Script(tokens=("x",)),
            {"tools": [{"function": {"name": "a"}}]},
            "ignored_tools_present",
        ),
        (None, Script(tokens=("x",)), {}, UNSET),
    ],
)
def test_format_status_is_top_level_and_on_the_closing_chunk(
    wanted: Any, script: Script, fields: Any, status: Any
) -> None:
    body = create(engine_that(script), response_format=wanted, **fields).body
    assert body.response_format_status == status
    *others, closing = chunks_of(script, response_format=wanted, **fields)
    assert closing.response_format_status == status
    assert all(chunk.response_format_status is UNSET for chunk in others)


def test_failure_under_a_constraint_is_not_enforced() -> None:
    closing = chunks_of(Script(tokens=("{",), fails_after=1), response_format=JSON)[-1]
    assert closing.response_format_status == "not_enforced"


def test_silence_is_filled_with_comments_where_the_setting_says_so() -> None:
    """An addition to the reference: PANTHEON_SSE_KEEPALIVE_MS."""
    engine = engine_that(Script(tokens=("a",), token_seconds=0.3))
    events = list(stream(engine, options=ChatOptions(keepalive_s=0.05)))
    assert isinstance(events[0], ChatCompletionChunk)
    comments = [event for event in events if isinstance(event, SseComment)]
    assert 2 <= len(comments) <= 12
    assert isinstance(events[1], SseComment)
    assert list(stream(engine)) != []
    assert not any(isinstance(event, SseComment) for event in stream(engine))


class HeldEngine(ScriptedEngine):
    """An engine that admits generations with seed 2 only when it is told to."""

    def __init__(self) -> None:
        super().__init__(script=lambda _: Script(tokens=("a",)))
        self.admits = threading.Event()

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        completion = super().submit(request)
        if request.sampling.seed == 2:
            wait = completion.wait_admitted
            completion.wait_admitted = (  # type: ignore[method-assign]
                lambda timeout: self.admits.wait(timeout) and wait(timeout)
            )
        return completion


def test_comments_are_sent_while_a_later_choice_waits_for_a_row() -> None:
    """The closing chunk of the first waits with it: it may turn out to be the last."""
    engine = HeldEngine()
    events = stream(engine, options=ChatOptions(keepalive_s=0.02), n=2, seed=1)
    assert next(events).choices[0].delta.role == "assistant"
    assert next(events).choices[0].delta.content == "a"
    assert isinstance(next(events), SseComment)
    engine.admits.set()
    rest = [event for event in events if not isinstance(event, SseComment)]
    assert [event.choices[0].index for event in rest[:-1]] == [0, 1, 1, 1]
    assert rest[-1] is SseSentinel.DONE


def test_no_comment_is_sent_to_a_stream_that_flows() -> None:
    engine = engine_that(Script(tokens=("a",) * 50))
    events = list(stream(engine, options=ChatOptions(keepalive_s=1.0), client=Client()))
    assert not any(isinstance(event, SseComment) for event in events)
