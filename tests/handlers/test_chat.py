"""Completions over a scripted engine, and when their generations are cancelled."""

from __future__ import annotations

import pytest

from pantheon.engine import (
    CompletionRequest,
    ContextOverBudget,
    GenerationFailed,
    ServerBusy,
)
from pantheon.engine.testing import Script, scripted_model
from pantheon.generated.models import (
    ChatCompletionChunk,
    ChatCompletionUsageChunk,
    ContextOverBudgetEvent,
)
from pantheon.generated.operations import (
    CreateChatCompletion200Json,
    CreateChatCompletion500Json,
    SseSentinel,
)
from tests.handlers.calls import Client, create, engine_that, stream


def test_answer_has_text_reason_and_usage() -> None:
    engine = engine_that(Script(tokens=("a", " b", " c")))
    response = create(engine)
    assert isinstance(response, CreateChatCompletion200Json)
    (choice,) = response.body.choices
    assert choice.message.content == "a b c"
    assert choice.finish_reason == "stop"
    usage = response.body.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 4, 7)
    assert usage.prompt_tokens_details.cached_tokens == 0
    assert (usage.kv_used, usage.kv_cap) == (6, 4096)
    assert response.body.model == "scripted"
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def test_empty_answer_is_an_empty_string() -> None:
    assert create(engine_that(Script())).body.choices[0].message.content == ""


def test_every_completion_has_an_id_of_its_own() -> None:
    engine = engine_that(Script())
    assert len({create(engine).body.id for _ in range(100)}) == 100


def test_length_is_the_reason_at_the_limit() -> None:
    response = create(engine_that(Script(tokens=("a", " b", " c"))), max_tokens=2)
    assert response.body.choices[0].finish_reason == "length"
    assert response.body.usage.completion_tokens == 2


def test_failure_is_raised() -> None:
    engine = engine_that(Script(tokens=("a", "b"), fails_after=1))
    with pytest.raises(GenerationFailed):
        create(engine)
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def test_client_that_leaves_cancels_once() -> None:
    engine = engine_that(Script(tokens=("a",) * 100))
    assert isinstance(create(engine, client=Client(5)), CreateChatCompletion500Json)
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)


@pytest.mark.parametrize("streamed", [True, False])
def test_client_that_leaves_the_queue_cancels_once(streamed: bool) -> None:
    engine = engine_that(Script(tokens=("a",)), models=[scripted_model(rows=1)])
    running = engine.submit(_completion_request())
    response = create(engine, client=Client(2), stream=streamed)
    assert isinstance(response, CreateChatCompletion500Json)
    assert engine.cancelled == 1
    running.cancel()
    assert engine.rows_in_use == 0


@pytest.mark.parametrize("streamed", [True, False])
def test_refusal_after_the_queue_is_raised_in_both_modes(streamed: bool) -> None:
    """Reference: a refusal before the stream opens keeps its status."""
    model = scripted_model(rows=1)
    engine = engine_that(Script(tokens=("a",)), models=[model], queue_wait_s=0.05)
    running = engine.submit(_completion_request())
    with pytest.raises(ServerBusy):
        create(engine, stream=streamed)
    running.cancel()


def test_defect_while_answering_cancels_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_that(Script(tokens=("a", "b")))
    _break_events(monkeypatch)
    with pytest.raises(RuntimeError):
        create(engine)
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)


def test_stream_has_the_events_of_the_reference_in_order() -> None:
    events = list(stream(engine_that(Script(tokens=("a", " b"))), stream_options=_USAGE))
    role, first, second, closing, usage, done = events
    assert role.choices[0].delta.role == "assistant"
    assert [first.choices[0].delta.content, second.choices[0].delta.content] == ["a", " b"]
    assert closing.choices[0].finish_reason == "stop"
    assert isinstance(usage, ChatCompletionUsageChunk)
    assert usage.usage.completion_tokens == 3
    assert done is SseSentinel.DONE
    chunks = [event for event in events if isinstance(event, ChatCompletionChunk)]
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-1])


_USAGE = {"include_usage": True}


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_stream_that_is_closed_early_cancels_once(taken: int) -> None:
    engine = engine_that(Script(tokens=("a", "b", "c", "d")))
    events = stream(engine)
    for _ in range(taken):
        next(events)
    events.close()
    events.close()
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)
    with pytest.raises(StopIteration):
        next(events)


@pytest.mark.parametrize("script", [Script(tokens=("a",)), Script(tokens=("a",), fails_after=1)])
def test_stream_that_has_ended_is_not_cancelled(script: Script) -> None:
    engine = engine_that(script)
    events = stream(engine)
    list(events)
    events.close()
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def test_stream_ends_when_the_client_leaves() -> None:
    engine = engine_that(Script(tokens=("a",) * 100))
    events = stream(engine, client=Client(3))
    assert len(list(events)) == 4
    events.close()
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)


def test_failure_in_a_stream_closes_the_choice_with_stop() -> None:
    """Reference, streaming response: other generation failures. No usage is made up."""
    engine = engine_that(Script(tokens=("a", "b"), fails_after=1))
    events = list(stream(engine, stream_options=_USAGE))
    assert [event.choices[0].finish_reason for event in events[:-1]] == [None, None, "stop"]
    assert events[-1] is SseSentinel.DONE


def test_defect_in_a_stream_closes_the_choice_and_cancels(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_that(Script(tokens=("a", "b")))
    _break_events(monkeypatch)
    events = stream(engine)
    _role, closing, done = list(events)
    events.close()
    assert closing.choices[0].finish_reason == "stop"
    assert done is SseSentinel.DONE
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)
    assert "a defect" in caplog.text


def test_over_budget_is_one_event_in_a_stream_and_an_error_otherwise() -> None:
    engine = engine_that(Script(), models=[scripted_model(context_window=2)])
    (event,) = stream(engine)
    assert isinstance(event, ContextOverBudgetEvent)
    assert (event.error.kv_used, event.error.kv_cap) == (3, 2)
    with pytest.raises(ContextOverBudget):
        create(engine)


def _completion_request() -> CompletionRequest:
    return CompletionRequest(model=None, messages=({"role": "user", "content": "x"},))


def _break_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: object, _timeout: float) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("pantheon.engine.testing.ScriptedCompletion.next_event", broken)
