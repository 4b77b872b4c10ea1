"""Turns of a model with recurrent layers resume from checkpoints and say what a cold run says.

The layer is a toy: its state is drawn from every token that was fed, and cannot be rolled back.
What it samples depends on that state. Scenarios 154, 155 and 160.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.events import Finished
from tests.engine.toy_device import VOCABULARY, cold, cold_answer
from tests.engine.toy_loop import ToyLoop, toy_loop

_ALLOWANCE = 64
"""Tokens that may be computed again beside what has changed."""


@contextmanager
def _server(slots: int = 24, pages: int = 1000) -> Iterator[ToyLoop]:
    with toy_loop(pages=pages, page_size=64, slots=slots) as toy:
        yield toy
        _states_are_cold(toy)


def _states_are_cold(toy: ToyLoop) -> None:
    """Every state that is kept is that of a cold run over the tokens before it."""
    toy.measured()
    with toy.loop.lock:
        for name in "st":
            session = toy.loop.sessions.find(name)
            for kept in () if session is None else session.conversations:
                for checkpoint in kept.checkpoints:
                    state = cold(kept.tokens[: checkpoint.tokens], True)[1]
                    assert toy.device.kept_states[checkpoint.slot] == state


def _prompt(size: int, first: int = 0) -> list[int]:
    return [(first + at * at * 7) % VOCABULARY for at in range(size)]


def _ask(toy: ToyLoop, prompt: list[int], limit: int = 8) -> tuple[list[int], int]:
    """A turn, compared with a cold run: its tokens, and how many of the prompt were computed."""
    before = toy.device.computed
    tokens, cached = toy.ask(prompt, "s", limit=limit)
    assert tokens == cold_answer(prompt, limit, recurrent=True)
    # The last token is fed by a decode step.
    computed = toy.device.computed - before + 1
    assert computed == len(prompt) - cached
    return tokens, computed


@pytest.mark.parametrize("slots", [6, 24])
@pytest.mark.parametrize("size", [100, 20_000])
def test_a_follow_up_computes_what_changed_and_64_tokens_at_most(size: int, slots: int) -> None:
    """For prompts of 100 tokens as for 20,000; with few slots as with many."""
    with _server(slots) as toy:
        prompt = _prompt(size)
        answer, computed = _ask(toy, prompt)
        assert computed == size
        new = _prompt(30, first=5)
        whole = [*prompt, *answer, *new]
        _, computed = _ask(toy, whole)
        assert computed <= 30 + 1 + _ALLOWANCE, "the answer is whole"
        toy.loop.sessions.release("s")
        _ask(toy, prompt)
        _, computed = _ask(toy, [*prompt, *new])
        assert computed <= 30 + _ALLOWANCE, "the answer was left out"


@pytest.mark.parametrize("changed", [1, 4, 16])
@pytest.mark.parametrize("size", [100, 191, 192, 193, 208, 20_000])
def test_a_prompt_whose_end_changed_computes_little_again(size: int, changed: int) -> None:
    """Scenario 160: the generation prompt, or the end of the last message, is another one."""
    with _server() as toy:
        prompt = _prompt(size)
        _ask(toy, prompt)
        following = [*prompt[: size - changed], *([3, 1] * 20)]
        _, computed = _ask(toy, following)
        assert computed <= 40 + _ALLOWANCE


def test_an_identical_prompt_again_computes_at_least_one_token_and_few() -> None:
    """Scenario 155: the client retries."""
    with _server() as toy:
        for _ in range(3):
            _, computed = _ask(toy, _prompt(300))
        assert 1 <= computed <= _ALLOWANCE


def test_an_edit_far_back_resumes_from_an_older_state() -> None:
    """Scenario 154: never from one that has seen other tokens."""
    with _server() as toy:
        prompt = _prompt(5000)
        _ask(toy, prompt)
        edited = [*prompt[:3000], 1, *prompt[3001:]]
        _, computed = _ask(toy, edited)
        assert computed == 5000 - 2048


def test_a_turn_whose_end_was_read_late_is_kept_with_the_token_that_was_fed() -> None:
    """The step dispatched before the end was read has fed the last token; there is no way back."""
    with _server() as toy:
        prompt = _prompt(150)
        answer = cold_answer(prompt, 30, recurrent=True)
        end = answer[9]
        count = answer.index(end) + 1
        tokens, last = toy.start(prompt, "s", limit=30, end=frozenset({end})).finish()
        assert isinstance(last, Finished) and tokens == answer[: count - 1]
        _states_are_cold(toy)
        _, computed = _ask(toy, [*prompt, *answer[:count], *_prompt(10)])
        assert computed == 10


def test_a_prompt_that_is_the_whole_last_turn_leaves_a_token_to_compute() -> None:
    """There is a state after its very last token, which is one too many (scenario 155)."""
    with _server() as toy:
        prompt = _prompt(150)
        answer = cold_answer(prompt, 30, recurrent=True)
        count = answer.index(answer[9]) + 1
        toy.start(prompt, "s", limit=30, end=frozenset({answer[9]})).finish()
        _, computed = _ask(toy, [*prompt, *answer[:count]])
        assert computed == 150 + count - 128


def test_a_cancelled_turn_leaves_the_states_of_its_prompt() -> None:
    """Scenario 158."""
    with _server() as toy:
        prompt = _prompt(300)
        turn = toy.start(prompt, "s", limit=200)
        turn.first_tokens()
        turn.stream.cancel()
        _, computed = _ask(toy, [*prompt, 1, 2, 3])
        assert computed == 303 - 256


def test_a_row_that_is_used_again_starts_from_nothing() -> None:
    """A request without a session leaves and takes no state."""
    with _server() as toy:
        for first in range(4):
            prompt = _prompt(80, first)
            assert toy.ask(prompt)[0] == cold_answer(prompt, 8, recurrent=True)
        assert toy.cache._slots is not None and toy.cache._slots.free == 24


def test_a_long_talk_keeps_few_states() -> None:
    with _server(slots=20) as toy:
        history = _prompt(3000)
        for turn in range(12):
            answer, computed = _ask(toy, history)
            assert turn == 0 or computed <= 150 + 1 + _ALLOWANCE
            history = [*history, *answer, *_prompt(150, first=turn)]
        session = toy.loop.sessions.find("s")
        assert session is not None and len(session.conversations) == 1
        (kept,) = session.conversations
        assert len(kept.checkpoints) <= 16
        assert all(old.tokens < new.tokens for old, new in pairwise(kept.checkpoints))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_talk_says_what_a_cold_run_says(data: st.DataObject) -> None:
    """Turns that go on, are edited, tried again or broken off, with few pages and slots."""
    with _server(slots=data.draw(st.integers(1, 6)), pages=data.draw(st.integers(8, 16))) as toy:
        histories = [_prompt(data.draw(st.integers(1, 200)))]
        for _ in range(data.draw(st.integers(1, 8))):
            history = histories[data.draw(st.integers(0, len(histories) - 1))]
            history = history[: data.draw(st.integers(1, len(history)))]
            prompt = [*history, *_prompt(data.draw(st.integers(0, 90)), first=3)][:400]
            session = data.draw(st.sampled_from(["s", "s", "t", None]))
            answer = cold_answer(prompt, 6, recurrent=True)
            if data.draw(st.booleans()):
                turn = toy.start(prompt, session, limit=100)
                turn.first_tokens()
                turn.stream.cancel()
                continue
            end = frozenset({answer[data.draw(st.integers(0, 5))]})
            tokens, last = toy.start(prompt, session, limit=6, end=end).finish()
            assert isinstance(last, Finished)
            stopped = next((at for at, token in enumerate(answer) if token in end), len(answer))
            assert tokens == answer[:stopped]
            histories.append([*prompt, *answer[: stopped + 1]])


def test_another_end_token_costs_at_most_the_grid() -> None:
    """The token that ended the turn was fed before it was read; the next prompt has another."""
    with _server() as toy:
        prompt = _prompt(300)
        answer = cold_answer(prompt, 600, recurrent=True)
        end = answer[500]
        count = answer.index(end) + 1
        toy.start(prompt, "s", limit=600, end=frozenset({end})).finish()
        _, computed = _ask(toy, [*prompt, *answer[: count - 1], *[1] * 10])
        assert computed <= 11 + _ALLOWANCE
