"""The scripted engine keeps the contract of `pantheon.engine.face`."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine import (
    CompletionRequest,
    ContextOverBudget,
    Engine,
    Event,
    Failed,
    Finished,
    JsonFormat,
    ModelNotFound,
    NoModelsLoaded,
    ReasoningDelta,
    ServerBusy,
    ServerShuttingDown,
    TextDelta,
)
from pantheon.engine.testing import (
    Script,
    ScriptedCompletion,
    ScriptedEngine,
    scripted_model,
    tokens_of,
)


def ask(text: str = "a b", **fields: object) -> CompletionRequest:
    return CompletionRequest(model=None, messages=({"role": "user", "content": text},), **fields)  # type: ignore[arg-type]


def run(completion: ScriptedCompletion) -> list[Event]:
    assert completion.wait_admitted(1)
    events: list[Event] = []
    while not events or not isinstance(events[-1], Finished | Failed):
        event = completion.next_event(1)
        assert event is not None
        events.append(event)
    return events


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_it_is_an_engine() -> None:
    engine: Engine = ScriptedEngine()
    assert engine.platform().backend == "cpu"
    assert [model.id for model in engine.models()] == ["scripted"]
    assert engine.dies() == ()


@given(st.text())
def test_tokens_join_to_the_text(text: str) -> None:
    assert "".join(tokens_of(text)) == text
    assert all(tokens_of(text))


def test_echo_is_the_default() -> None:
    assert text_of(run(ScriptedEngine().submit(ask(" hello  big\nworld ")))) == (
        " hello  big\nworld "
    )


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"max_tokens": 1}, "a", "length"),
        ({"max_tokens": 3}, "a b c", "stop"),
        ({"stop": ("b",)}, "a ", "stop"),
        ({"stop": ("c", "b c")}, "a ", "stop"),
        ({"stop": ("x",)}, "a b c", "stop"),
        ({"stop": ("c",), "max_tokens": 1}, "a", "length"),
    ],
)
def test_answer_ends_at_the_limit_or_a_stop_string(
    fields: dict[str, object], text: str, reason: str
) -> None:
    events = run(ScriptedEngine().submit(ask("a b c", **fields)))
    assert text_of(events) == text
    assert isinstance(events[-1], Finished)
    assert events[-1].finish_reason == reason


def test_answer_ends_at_the_window() -> None:
    engine = ScriptedEngine([scripted_model(context_window=5)])
    events = run(engine.submit(ask("a b c")))
    assert isinstance(events[-1], Finished)
    assert events[-1].finish_reason == "length"
    assert events[-1].usage.kv_used == 5
    with pytest.raises(ContextOverBudget):
        engine.submit(ask("a b c d e"))


def test_rows_and_queue_are_bounded_and_fair() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)], queue_depth=2)
    first, second, third = (engine.submit(ask()) for _ in range(3))
    with pytest.raises(ServerBusy):
        engine.submit(ask())
    assert first.wait_admitted(0)
    assert not second.wait_admitted(0)
    run(first)
    assert not third.wait_admitted(0)
    assert second.wait_admitted(0)
    second.cancel()
    assert third.wait_admitted(0)
    run(third)
    assert engine.rows_in_use == 0


def test_row_is_waited_for() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)])
    first, second = engine.submit(ask()), engine.submit(ask())
    timer = threading.Timer(0.1, first.cancel)
    timer.start()
    assert second.wait_admitted(5)
    timer.join()


def test_wait_in_the_queue_runs_out() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)], queue_wait_s=0.05)
    first, second = engine.submit(ask()), engine.submit(ask())
    time.sleep(0.06)
    with pytest.raises(ServerBusy):
        second.wait_admitted(0)
    first.cancel()
    assert engine.rows_in_use == 0


def test_time_between_tokens_is_kept() -> None:
    engine = ScriptedEngine(script=lambda _: Script(tokens=("a",), token_seconds=0.1))
    completion = engine.submit(ask())
    assert completion.wait_admitted(1)
    assert completion.next_event(0.01) is None
    assert completion.next_event(1) == TextDelta("a")


def test_cancel_counts_once_and_not_after_the_end() -> None:
    engine = ScriptedEngine()
    completion = engine.submit(ask())
    completion.cancel()
    completion.cancel()
    ended = engine.submit(ask())
    run(ended)
    ended.cancel()
    assert engine.cancelled == 1
    assert engine.rows_in_use == 0
    assert len(engine.accepted) == 2


def test_routing_is_that_of_the_reference() -> None:
    """Reference, `model`: one model takes any name, several must be named."""
    assert ScriptedEngine().submit(ask()).model_id == "scripted"
    two = ScriptedEngine([scripted_model("a"), scripted_model("b")])
    named = CompletionRequest(model="b", messages=({"role": "user", "content": "x"},))
    assert two.submit(named).model_id == "b"
    with pytest.raises(ModelNotFound):
        two.submit(ask())
    with pytest.raises(NoModelsLoaded):
        ScriptedEngine([]).submit(ask())


def test_closing_ends_everything() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)])
    running, queued = engine.submit(ask()), engine.submit(ask())
    assert running.wait_admitted(0)
    engine.close()
    assert isinstance(running.next_event(1), Failed)
    with pytest.raises(ServerShuttingDown):
        queued.wait_admitted(0)
    with pytest.raises(ServerShuttingDown):
        engine.submit(ask())


def play(script: Script, **fields: object) -> list[Event]:
    return run(ScriptedEngine(script=lambda _: script).submit(ask(**fields)))


def test_reasoning_comes_first_and_keeps_to_its_budget_and_switch() -> None:
    script = Script(tokens=("c",), reasoning=("a", " b"))
    assert play(script)[:-1] == [ReasoningDelta("a"), ReasoningDelta(" b"), TextDelta("c")]
    assert play(script, reasoning_budget=1)[:-1] == [ReasoningDelta("a"), TextDelta("c")]
    assert play(script, reasoning_budget=0)[:-1] == play(script)[:-1]
    assert play(script, enable_thinking=False)[:-1] == [TextDelta("c")]


@pytest.mark.parametrize(
    ("limit", "reason", "tokens"), [(1, "length", 1), (2, "length", 2), (3, "stop", 4)]
)
def test_limit_counts_reasoning_and_answer(limit: int, reason: str, tokens: int) -> None:
    end = play(Script(tokens=("c",), reasoning=("a", "b")), max_tokens=limit)[-1]
    assert isinstance(end, Finished)
    assert (end.finish_reason, end.usage.completion_tokens) == (reason, tokens)


def test_logprobs_come_with_the_text_of_their_tokens() -> None:
    script = Script(tokens=("a", " b", " c"), tokens_per_event=2)
    first, second, _end = play(script, top_logprobs=2)
    assert isinstance(first, TextDelta) and isinstance(second, TextDelta)
    assert [token.text for token in first.logprobs] == ["a", " b"]
    assert [token.text for token in second.logprobs] == [" c"]
    assert [len(token.alternatives) for token in first.logprobs] == [2, 2]
    assert play(script)[0] == TextDelta("a b")


@pytest.mark.parametrize(
    ("script", "fields", "closed"),
    [
        (Script(tokens=("{}",)), {}, None),
        (Script(tokens=("{}",)), {"response_format": JsonFormat()}, True),
        (Script(format_closed=False), {"response_format": JsonFormat()}, False),
        (Script(tokens=("{", "}")), {"response_format": JsonFormat(), "max_tokens": 1}, False),
    ],
)
def test_end_says_whether_the_format_is_closed(
    script: Script, fields: dict[str, object], closed: bool | None
) -> None:
    end = play(script, **fields)[-1]
    assert isinstance(end, Finished)
    assert end.format_closed is closed


def test_script_may_end_as_a_loop() -> None:
    end = play(Script(tokens=("a",), ends_as="repetition_loop"))[-1]
    assert isinstance(end, Finished)
    assert (end.finish_reason, end.usage.completion_tokens) == ("repetition_loop", 1)


def test_place_in_the_queue_that_is_overdue_gets_no_row() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)], queue_wait_s=0.01)
    first, second = engine.submit(ask()), engine.submit(ask())
    time.sleep(0.02)
    first.cancel()
    with pytest.raises(ServerBusy):
        second.wait_admitted(0)
    assert engine.rows_in_use == 0
