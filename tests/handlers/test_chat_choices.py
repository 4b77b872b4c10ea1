"""Several choices of one request (reference, `n`, `n_status`, usage, streaming response)."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from msgspec import UNSET

from pantheon.engine import (
    CompletionRequest,
    EngineError,
    GenerationFailed,
    NoModelsLoaded,
    ServerBusy,
    ServerMemoryConstrained,
    ServerShuttingDown,
)
from pantheon.engine.testing import Script, ScriptedCompletion, ScriptedEngine, scripted_model
from pantheon.generated.models import ChatCompletionChunk, ChatCompletionUsageChunk
from pantheon.generated.operations import CreateChatCompletion500Json, SseSentinel
from tests.handlers.calls import Client, create, engine_that, stream

USAGE = {"include_usage": True}
WORDS = ("a", " b")


def engine_by_seed(scripts: dict[int, Script], **options: Any) -> ScriptedEngine:
    """An engine whose generations do what their seed says; the others answer `a b`."""

    def script(request: CompletionRequest) -> Script:
        return scripts.get(request.sampling.seed or 0, Script(tokens=WORDS))

    return ScriptedEngine(script=script, **options)


def by_choice(events: list[Any]) -> list[list[ChatCompletionChunk]]:
    """The chunks of each choice, which must come one choice after another."""
    found: list[list[ChatCompletionChunk]] = []
    for event in events:
        if isinstance(event, ChatCompletionChunk):
            if not found or found[-1][0].choices[0].index != event.choices[0].index:
                found.append([])
            found[-1].append(event)
    indices = [chunks[0].choices[0].index for chunks in found]
    assert indices == sorted(set(indices)), "chunks of choices are mixed"
    return found


def n_statuses(events: list[Any]) -> list[Any]:
    return [e.n_status for e in events if isinstance(e, ChatCompletionChunk) and e.n_status]


def test_each_choice_is_a_generation_with_a_seed_of_its_own() -> None:
    scripts = {seed: Script(tokens=(f"seed {seed}",)) for seed in (7, 8, 9)}
    engine = engine_by_seed(scripts, models=[scripted_model(rows=3)])
    body = create(engine, n=3, seed=7).body
    assert [choice.index for choice in body.choices] == [0, 1, 2]
    assert [c.message.content for c in body.choices] == ["seed 7", "seed 8", "seed 9"]
    assert [r.sampling.seed for r in engine.accepted] == [7, 8, 9]
    assert body.n_status is not None and not isinstance(body.n_status, str)
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def test_usage_counts_the_prompt_once_and_sums_completions() -> None:
    """The prompt of two words and its turn; each answer of two words and its end."""
    usage = create(engine_by_seed({}), n=3, seed=1).body.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 9, 12)
    assert usage.kv_used == 5


@pytest.mark.parametrize("streamed", [False, True])
def test_more_choices_than_rows_wait_for_one(streamed: bool) -> None:
    engine = engine_by_seed({}, models=[scripted_model(rows=1)])
    if streamed:
        assert len(by_choice(list(stream(engine, n=4)))) == 4
    else:
        assert len(create(engine, n=4).body.choices) == 4
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def test_nine_are_capped_to_eight() -> None:
    body = create(engine_by_seed({}), n=9).body
    assert (len(body.choices), body.n_status) == (8, "capped_to_8")
    events = list(stream(engine_by_seed({}), n=9))
    assert len(by_choice(events)) == 8
    assert n_statuses(events) == ["capped_to_8"]
    assert by_choice(events)[-1][-1].n_status == "capped_to_8"


@pytest.mark.parametrize(
    "refusal",
    [
        ServerBusy("every row is taken"),
        ServerMemoryConstrained("memory is short"),
        ServerShuttingDown("the server is shutting down"),
    ],
)
def test_later_choice_without_a_place_is_left_out(refusal: EngineError) -> None:
    scripts = {3: Script(refusal=refusal)}
    engine = engine_by_seed(scripts)
    body = create(engine, n=4, seed=1).body
    assert [choice.index for choice in body.choices] == [0, 1]
    assert body.n_status == "partial_slot_unavailable"
    events = list(stream(engine, n=4, seed=1))
    assert len(by_choice(events)) == 2
    assert by_choice(events)[-1][-1].n_status == "partial_slot_unavailable"
    assert len(n_statuses(events)) == 1
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def answer(engine: ScriptedEngine, streamed: bool, **fields: Any) -> tuple[list[int], Any]:
    """The numbers of the choices that came, and why fewer came than were asked for."""
    if streamed:
        with closing(stream(engine, **fields)) as answered:
            events = list(answered)
        assert events[-1] is SseSentinel.DONE
        choices = by_choice(events)
        assert all(chunks[-1].choices[0].finish_reason == "stop" for chunks in choices)
        return [c[0].choices[0].index for c in choices], choices[-1][-1].n_status
    body = create(engine, **fields).body
    return [choice.index for choice in body.choices], body.n_status


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("rows", "queue_depth"), [(1, 0), (1, 1), (2, 0), (2, 1)])
def test_choices_that_find_no_place_beside_their_siblings_follow_them(
    rows: int, queue_depth: int, streamed: bool
) -> None:
    engine = engine_by_seed({}, models=[scripted_model(rows=rows)], queue_depth=queue_depth)
    assert answer(engine, streamed, n=5, seed=1) == ([0, 1, 2, 3, 4], UNSET)
    assert [r.sampling.seed for r in engine.accepted] == [1, 2, 3, 4, 5]
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


def test_usage_of_choices_in_turn_is_that_of_choices_side_by_side() -> None:
    alone = engine_by_seed({}, models=[scripted_model(rows=1)], queue_depth=0)
    assert create(alone, n=3).body.usage == create(engine_by_seed({}), n=3).body.usage


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
def test_choices_whose_wait_for_a_sibling_runs_out_wait_again(rows: int, streamed: bool) -> None:
    """A choice takes longer than another may wait in the queue."""
    engine = engine_that(
        Script(tokens=WORDS, token_seconds=0.03),
        models=[scripted_model(rows=rows)],
        queue_wait_s=0.02,
    )
    assert answer(engine, streamed, n=5) == ([0, 1, 2, 3, 4], UNSET)
    assert engine.rows_in_use == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_choices_take_turns_on_the_row_that_another_client_leaves(streamed: bool) -> None:
    engine = engine_by_seed({}, models=[scripted_model(rows=2)], queue_depth=0)
    create(engine)
    other = engine.submit(engine.accepted[0])
    assert answer(engine, streamed, n=3, seed=1) == ([0, 1, 2], UNSET)
    assert engine.rows_in_use == 1
    other.cancel()


class RivalEngine(ScriptedEngine):
    """An engine of one row on which another client is ahead of the choice with seed 2.

    The other client comes just before that choice is submitted for the `attempt`-th time.
    """

    def __init__(self, queue_depth: int, attempt: int) -> None:
        super().__init__(
            models=[scripted_model(rows=1)],
            script=lambda _: Script(tokens=WORDS),
            queue_depth=queue_depth,
            queue_wait_s=0.2,
        )
        self._attempts_left = attempt
        self._rival: ScriptedCompletion | None = None

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        if request.sampling.seed == 2:
            self._attempts_left -= 1
            if self._attempts_left == 0:
                self._rival = super().submit(request)
        return super().submit(request)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("queue_depth", "attempt"), [(0, 2), (1, 1)])
def test_choice_that_finds_no_place_though_no_sibling_runs_is_left_out(
    queue_depth: int, attempt: int, streamed: bool
) -> None:
    """The other client has the row; the choice is refused at once, or when its wait runs out."""
    engine = RivalEngine(queue_depth, attempt)
    assert answer(engine, streamed, n=3, seed=1) == ([0], "partial_slot_unavailable")
    assert (engine.cancelled, engine.rows_in_use) == (0, 1)


class LateEngine(ScriptedEngine):
    """An engine whose generations tell their end before their row is free."""

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        completion = super().submit(request)
        completion.cancel = completion._finish  # type: ignore[method-assign]
        completion._finish = lambda: None  # type: ignore[method-assign]
        return completion


@pytest.mark.parametrize("streamed", [False, True])
def test_choice_that_follows_does_not_meet_the_row_of_the_one_before(streamed: bool) -> None:
    engine = LateEngine([scripted_model(rows=1)], lambda _: Script(tokens=WORDS), queue_depth=0)
    assert answer(engine, streamed, n=3) == ([0, 1, 2], UNSET)
    assert engine.rows_in_use == 0


class DefectiveEngine(ScriptedEngine):
    """An engine that does not come to accept or refuse the request with seed 3."""

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        if request.sampling.seed == 3:
            raise RuntimeError("a defect")
        return super().submit(request)


@pytest.mark.parametrize("streamed", [False, True])
def test_defect_in_a_later_submission_cancels_the_earlier_ones(streamed: bool) -> None:
    engine = DefectiveEngine()
    with pytest.raises(RuntimeError, match="a defect"):
        create(engine, n=3, seed=1, stream=streamed)
    assert (engine.cancelled, engine.rows_in_use) == (2, 0)


@pytest.mark.parametrize("streamed", [False, True])
def test_defect_in_a_repeated_submission_leaves_nothing_running(streamed: bool) -> None:
    """Choice 2 is submitted again when choice 0 has ended and choice 1 has a row."""
    engine = DefectiveEngine([scripted_model(rows=1)], queue_depth=0)
    with pytest.raises(RuntimeError, match="a defect"):
        answer(engine, streamed, n=4, seed=1)
    assert engine.rows_in_use == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_refusal_of_the_first_choice_is_that_of_the_request(streamed: bool) -> None:
    engine = engine_by_seed({1: Script(refusal=ServerBusy("every row is taken"))})
    with pytest.raises(ServerBusy):
        create(engine, n=3, seed=1, stream=streamed)
    assert engine.accepted == []


@pytest.mark.parametrize("streamed", [False, True])
def test_other_refusal_of_a_later_choice_cancels_the_earlier_ones(streamed: bool) -> None:
    engine = engine_by_seed({2: Script(refusal=NoModelsLoaded("no model is loaded"))})
    with pytest.raises(NoModelsLoaded):
        create(engine, n=3, seed=1, stream=streamed)
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_choice_that_fails_is_left_out(failing: int) -> None:
    engine = engine_by_seed({failing: Script(tokens=WORDS, fails_after=1)})
    body = create(engine, n=3, seed=1).body
    assert [choice.index for choice in body.choices] == [i for i in range(3) if i != failing - 1]
    assert body.n_status == "partial_generation_failed"
    assert (body.usage.prompt_tokens, body.usage.completion_tokens) == (3, 6)
    assert (engine.cancelled, engine.rows_in_use) == (0, 0)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_choice_that_fails_in_a_stream_is_closed_with_stop(failing: int) -> None:
    engine = engine_by_seed({failing: Script(tokens=WORDS, fails_after=1)})
    events = list(stream(engine, n=3, seed=1, stream_options=USAGE))
    chunks = by_choice(events)[failing - 1]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, "stop"]
    assert by_choice(events)[-1][-1].n_status == "partial_generation_failed"
    assert len(n_statuses(events)) == 1
    *_, usage, done = events
    assert usage.usage.completion_tokens == 6
    assert done is SseSentinel.DONE


def test_request_fails_when_every_choice_fails() -> None:
    engine = engine_that(Script(tokens=WORDS, fails_after=1))
    with pytest.raises(GenerationFailed):
        create(engine, n=2)
    events = list(stream(engine, n=2, stream_options=USAGE))
    assert not any(isinstance(event, ChatCompletionUsageChunk) for event in events)
    assert n_statuses(events) == []


def test_choices_stream_one_after_another_each_with_its_role_first() -> None:
    events = list(stream(engine_by_seed({}), n=3, stream_options=USAGE))
    for chunks in by_choice(events):
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [c.choices[0].finish_reason for c in chunks] == [None, None, None, "stop"]
    assert len({(e.id, e.created) for e in events[:-1]}) == 1
    assert isinstance(events[-2], ChatCompletionUsageChunk)
    assert events[-2].usage.completion_tokens == 9


@pytest.mark.parametrize("taken", [0, 1, 4, 5, 7])
def test_closing_a_stream_cancels_every_choice_that_runs_or_waits(taken: int) -> None:
    engine = engine_by_seed({}, models=[scripted_model(rows=2)])
    events = stream(engine, n=3)
    for _ in range(taken):
        next(events)
    events.close()
    events.close()
    # A choice has ended when its closing chunk, the fourth of its four, has come.
    assert (engine.cancelled, engine.rows_in_use) == (3 - taken // 4, 0)


@pytest.mark.parametrize("looks", [0, 3, 5])
def test_client_that_leaves_cancels_every_choice(looks: int) -> None:
    engine = engine_by_seed({}, models=[scripted_model(rows=2)])
    response = create(engine, client=Client(looks), n=3)
    assert isinstance(response, CreateChatCompletion500Json)
    assert (engine.cancelled, engine.rows_in_use) == (3 - looks // 3, 0)


class BrokenEngine(ScriptedEngine):
    """An engine in whose generations with seed 1 there is a defect."""

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        completion = super().submit(request)
        if request.sampling.seed == 1:
            completion.next_event = _broken  # type: ignore[method-assign]
        return completion


def _broken(_timeout: float) -> None:
    raise RuntimeError("a defect")


def test_defect_in_one_choice_of_a_stream_leaves_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = BrokenEngine(script=lambda _: Script(tokens=WORDS))
    events = list(stream(engine, n=2, seed=1))
    first, second = by_choice(events)
    assert [chunk.choices[0].finish_reason for chunk in first] == [None, "stop"]
    assert [chunk.choices[0].finish_reason for chunk in second] == [None, None, None, "stop"]
    assert second[-1].n_status == "partial_generation_failed"
    assert (engine.cancelled, engine.rows_in_use) == (1, 0)
    assert "a defect" in caplog.text
