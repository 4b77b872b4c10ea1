"""Answers decoded with drafts are those of plain decoding (reference, Tool calling: output equals
non-speculative decoding)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.events import Finished
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.scheduler import Scheduler
from pantheon.engine.scheduler import Sequence as Prompt
from tests.engine.live_model import LiveModel, live_model
from tests.engine.oracle import Oracle
from tests.engine.toy_device import VOCABULARY, cold_answer
from tests.engine.toy_loop import toy_loop
from tests.golden import golden_file

_PROMPT = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40)
_LIMIT = 40


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(_PROMPT, st.sets(st.integers(0, _LIMIT - 1))), min_size=1, max_size=4),
    st.integers(1, _LIMIT),
    st.integers(1, 9),
)
def test_whatever_is_guessed_the_answer_is_the_same(
    talks: list[tuple[list[int], set[int]]], limit: int, width: int
) -> None:
    """Every token comes from cells that only the right tokens were written to."""
    with toy_loop(rows=3, entries=8, page_size=4) as toy:
        answers = [cold_answer(prompt, limit) for prompt, _ in talks]
        turns = [
            toy.start(
                prompt,
                f"s{index}",
                limit=limit,
                guesser=Oracle(answer, lambda place, wrong=wrong: place not in wrong, 1, width),  # type: ignore[misc]
            )
            for index, ((prompt, wrong), answer) in enumerate(zip(talks, answers, strict=True))
        ]
        for turn, answer in zip(turns, answers, strict=True):
            tokens, end = turn.finish()
            assert isinstance(end, Finished)
            assert tokens == answer
        toy.scheduler.check()
        # What is kept of a turn with drafts is as good as what is computed anew.
        for index, ((prompt, _), answer) in enumerate(zip(talks, answers, strict=True)):
            following = [*prompt, *answer, 5]
            again, cached = toy.ask(following, f"s{index}", limit=3)
            assert again == cold_answer(following, 3)
            assert cached >= len(prompt) + len(answer) - 1


def test_right_drafts_save_steps() -> None:
    """Scheduler: entries that no row takes hold drafts."""
    answer = cold_answer([1, 2, 3], 33)
    with toy_loop(rows=2, entries=8) as toy:
        tokens, _ = toy.start(
            [1, 2, 3], limit=33, guesser=Oracle(answer, lambda place: True, 0)
        ).finish()
        toy.measured()
        assert tokens == answer
        # The second step was on its way before there was anything to guess from.
        assert [len(rows) for rows in toy.device.decoded] == [1, 1, 8, 8, 8, 7]


def test_rows_that_decode_leave_less_room_for_drafts() -> None:
    prompts = [[1], [2], [3]]
    answers = [cold_answer(prompt, 60) for prompt in prompts]
    with toy_loop(rows=3, entries=4) as toy:
        toy.device.gate.clear()
        turns = [
            toy.start(prompt, limit=60, guesser=Oracle(answer, lambda place: True, 0))
            for prompt, answer in zip(prompts, answers, strict=True)
        ]
        toy.device.gate.set()
        assert [turn.finish()[0] for turn in turns] == answers
        assert max(len(rows) for rows in toy.device.decoded) == 4


def test_an_answer_that_ends_among_its_drafts_ends_there() -> None:
    answer = cold_answer([4, 5], 20)
    end = answer[9]
    assert end not in answer[:9]
    with toy_loop(rows=1, entries=8) as toy:
        turn = toy.start(
            [4, 5],
            "one",
            limit=20,
            end=frozenset({end}),
            guesser=Oracle(answer, lambda place: True, 0),
        )
        tokens, finished = turn.finish()
        assert tokens == answer[:9]
        assert isinstance(finished, Finished) and finished.usage.completion_tokens == 10


def test_who_leaves_while_drafts_are_counted_takes_nobody_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reference, disconnects: a client that goes frees its own row and disturbs no other."""
    prompts = [[1], [2]]
    answers = [cold_answer(prompt, 60) for prompt in prompts]
    with toy_loop(rows=2, entries=8) as toy:
        toy.device.gate.clear()
        leaving, staying = (
            toy.start(prompt, limit=60, guesser=Oracle(answer, lambda place: True, 0))
            for prompt, answer in zip(prompts, answers, strict=True)
        )
        rows_of = type(toy.scheduler).decoding.fget
        assert rows_of is not None
        leavers: list[threading.Thread] = []

        def decoding(scheduler: Scheduler) -> tuple[Prompt, ...]:
            found: tuple[Prompt, ...] = rows_of(scheduler)
            if leaving.sequence in found and not leavers:
                cancel = (leaving.sequence,)
                leavers.append(threading.Thread(target=toy.loop.cancel, args=cancel))
                leavers[0].start()
                leavers[0].join(0.2)
            return found

        monkeypatch.setattr(Scheduler, "decoding", property(decoding))
        toy.device.gate.set()
        tokens, end = staying.finish()
        assert isinstance(end, Finished) and tokens == answers[1]
        leavers[0].join()


@pytest.fixture(scope="module")
def model() -> Iterator[LiveModel]:
    with live_model(golden_file("models/llama-smollm-f32.gguf"), rows=4) as live:
        yield live


@pytest.mark.parametrize(
    "sampling",
    [
        RowSampling(0.0, 1.0, 0, 0, top_logprobs=2),
        RowSampling(0.0, 1.0, 0, 0, 1.5, 0.7, top_logprobs=2),
        RowSampling(1.3, 1.0, 0, 11, top_logprobs=2),
        RowSampling(0.9, 0.8, 40, 12, 0.4, 0.9, ((7, 3.0), (9, -50.0)), top_logprobs=2),
    ],
    ids=["greedy", "greedy with penalties", "sampled", "everything"],
)
@pytest.mark.parametrize("pattern", ["right", "wrong", "mixed"])
def test_a_model_answers_the_same_with_drafts(
    model: LiveModel, sampling: RowSampling, pattern: str
) -> None:
    """Tokens and log-probabilities, beside a row that decodes plainly."""
    prompt = [int(token) for token in np.random.default_rng(4).integers(0, 500, 150)]
    plain = model.start(prompt, limit=60, sampling=sampling).wait()
    right = {
        "right": lambda place: True,
        "wrong": lambda place: False,
        "mixed": lambda place: place % 5 != 3,
    }[pattern]
    guesser = Oracle(plain.tokens, right, 1)
    company = model.start(prompt[:20], limit=60, sampling=sampling)
    drafted = model.start(prompt, limit=60, sampling=sampling, guesser=guesser).wait()
    alone = model.start(prompt[:20], limit=60, sampling=sampling)
    assert drafted.tokens == plain.tokens
    assert [getattr(event, "logprobs", None) for event in drafted.events] == [
        getattr(event, "logprobs", None) for event in plain.events
    ]
    assert company.tokens == alone.tokens
    drafting = drafted.generation.drafting
    assert drafting is not None and drafting.count.drafted
    assert (drafting.count.right > 0) == (pattern != "wrong")
    model.check()
