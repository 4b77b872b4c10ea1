"""Sessions, jobs and the pace in the step loop (reference, session routes and concurrency)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from pantheon.engine.errors import (
    GenerationFailed,
    ServerBusy,
    ServerShuttingDown,
    SessionCapacity,
)
from pantheon.engine.events import Failed, Finished
from tests.engine.toy_device import VOCABULARY, cold_answer
from tests.engine.toy_loop import WAIT_S, ToyLoop, toy_loop


def _prompt(size: int, first: int = 0) -> list[int]:
    return [(first + at * 7) % VOCABULARY for at in range(size)]


def _wait_for_job(toy: ToyLoop) -> None:
    for _ in range(10_000):
        if not toy.loop._jobs.empty:
            return
        threading.Event().wait(0.001)
    raise AssertionError("no job came")


def test_a_next_turn_computes_what_is_new_and_says_what_a_cold_run_says() -> None:
    """Reference, `session_id`: delta prefill; `cached_tokens` is what was not computed."""
    with toy_loop() as toy:
        history = _prompt(200)
        computed = 0
        for turn in range(4):
            cold_tokens = cold_answer(history, 8)
            tokens, cached = toy.ask(history, "s")
            assert tokens == cold_tokens
            assert toy.device.computed - computed + 1 == len(history) - cached
            assert cached == (0 if turn == 0 else len(history) - 12)
            computed = toy.device.computed
            history = [*history, *tokens, *_prompt(11, first=turn)]


def test_an_answer_that_ended_early_is_kept_without_what_was_thrown_away() -> None:
    """A step was dispatched before its end was read; its token is not part of the history."""
    with toy_loop() as toy:
        prompt = _prompt(40)
        answer = cold_answer(prompt, 20)
        tokens, end = toy.start(prompt, "s", limit=20, end=frozenset({answer[4]})).finish()
        assert isinstance(end, Finished) and tokens == answer[:4]
        following = [*prompt, *answer[:5], 1, 2]
        assert toy.ask(following, "s") == (cold_answer(following, 8), 44)


def test_the_turn_after_an_aborted_one_resumes_from_its_prompt_only() -> None:
    """Scenario 158: close after the first token and send the next turn at once."""
    with toy_loop(rows=1) as toy:
        prompt = _prompt(300)
        turn = toy.start(prompt, "s", limit=100)
        turn.first_tokens()
        turn.stream.cancel()
        following = [*prompt, 5, 6, 7]
        assert toy.ask(following, "s") == (cold_answer(following, 8), 300)


def test_a_session_is_busy_from_the_queue_to_the_end_of_its_turn() -> None:
    with toy_loop(rows=1) as toy:
        toy.device.gate.clear()
        first = toy.start(_prompt(9))
        queued = toy.start(_prompt(9), "s")
        session = toy.loop.sessions.find("s")
        assert session is not None and session.turns == 1
        assert not queued.stream.wait_admitted(0)
        toy.device.gate.set()
        first.finish(), queued.finish()
        assert session.turns == 0 and len(session.conversations) == 1


def test_a_session_used_twice_at_once_answers_both_as_if_alone() -> None:
    with toy_loop(rows=2) as toy:
        toy.ask(_prompt(100), "s")
        histories = [[*_prompt(100), 1, 2, 3], [*_prompt(60), *_prompt(50, first=4)]]
        turns = [toy.start(history, "s", limit=12) for history in histories]
        for turn, history in zip(turns, histories, strict=True):
            assert turn.finish()[0] == cold_answer(history, 12)


def test_a_new_id_over_the_cap_is_refused_with_the_time_of_another_prefill() -> None:
    """Reference, 429 `model_at_session_capacity`: Retry-After 30 and the estimate."""
    with toy_loop(max_sessions=1) as toy:
        toy.ask(_prompt(9), "a")
        toy.measured()
        toy.loop.times._prefill = 128 / 50
        with pytest.raises(SessionCapacity, match=r"takes about 4\.0 s") as refused:
            toy.start(_prompt(200), "b")
        assert refused.value.retry_after == 30
        toy.ask(_prompt(9)), toy.ask(_prompt(9), "a")
        toy.loop.sessions.release("a")
        toy.ask(_prompt(9), "b")


def test_a_refused_turn_leaves_no_session_behind() -> None:
    with toy_loop(rows=1, queue_depth=0, max_sessions=1) as toy:
        toy.device.gate.clear()
        running = toy.start(_prompt(9))
        for name in "abc":
            with pytest.raises(ServerBusy):
                toy.start(_prompt(9), name)
        toy.device.gate.set()
        running.finish()
        toy.ask(_prompt(9), "d")
        assert len(toy.table) == 1


def test_a_queued_turn_that_is_cancelled_leaves_no_session_behind() -> None:
    with toy_loop(rows=1, max_sessions=1) as toy:
        toy.device.gate.clear()
        running = toy.start(_prompt(9))
        toy.start(_prompt(9), "a").stream.cancel()
        toy.device.gate.set()
        running.finish()
        toy.ask(_prompt(9), "b")


def test_a_released_session_is_forgotten_while_its_turn_runs_on() -> None:
    with toy_loop() as toy:
        toy.device.gate.clear()
        turn = toy.start(_prompt(50), "s")
        toy.loop.sessions.release("s")
        toy.device.gate.set()
        assert turn.finish()[0] == cold_answer(_prompt(50), 8)
        assert toy.ask(_prompt(50), "s")[1] == 0


def test_after_a_failed_step_nothing_is_resumed_from_what_was_lost() -> None:
    """A waiting request that is admitted by the failure starts cold, and its answer is right."""
    with toy_loop(rows=1) as toy:
        tokens, _ = toy.ask(_prompt(100), "s")
        history = [*_prompt(100), *tokens, 1, 2]
        toy.device.gate.clear()
        failing = toy.start(history, "s")
        waiting = toy.start([*history, 3], "s")
        toy.device.fail_next = True
        toy.device.gate.set()
        assert isinstance(failing.finish()[1], Failed)
        tokens, end = waiting.finish()
        assert isinstance(end, Finished) and end.usage.cached_tokens == 0
        assert tokens == cold_answer([*history, 3], 8)
        assert toy.device.resets == 1


def test_jobs_run_between_steps_and_in_order() -> None:
    with toy_loop() as toy:
        toy.device.gate.clear()
        turn = toy.start(_prompt(9), limit=60)
        order: list[str] = []

        def pieces(name: str) -> Iterator[None]:
            for _ in range(5):
                order.append(f"{name}{len(toy.device.decoded)}")
                yield

        threads = []
        for name in "ab":
            threads.append(threading.Thread(target=toy.loop.perform, args=(pieces(name),)))
            threads[-1].start()
            _wait_for_job(toy)
            threading.Event().wait(0.02)
        toy.device.gate.set()
        for thread in threads:
            thread.join(WAIT_S)
        assert turn.finish()[0] == cold_answer(_prompt(9), 60)
        assert [entry[0] for entry in order] == list("aaaaabbbbb")
        assert len({entry[1:] for entry in order}) >= 9, "one piece between two steps"


def test_an_idle_loop_does_jobs_too() -> None:
    with toy_loop() as toy:
        done: list[int] = []

        def pieces() -> Iterator[None]:
            for number in range(3):
                done.append(number)
                yield

        toy.loop.perform(pieces())
        assert done == [0, 1, 2]


def test_what_a_job_raises_is_raised_to_who_waits_and_to_nobody_else() -> None:
    log = logging.getLogger("pantheon.engine.step_loop")

    def slow(record: logging.LogRecord) -> bool:
        """The loop takes a while to recover."""
        threading.Event().wait(0.05)
        return False

    def pieces() -> Iterator[None]:
        yield
        raise ValueError("no such page")

    log.addFilter(slow)
    try:
        with toy_loop() as toy:
            for _ in range(3):
                with pytest.raises(ValueError, match="no such page"):
                    toy.loop.perform(pieces())
                assert toy.ask(_prompt(9), "s")[0] == cold_answer(_prompt(9), 8)
    finally:
        log.removeFilter(slow)


def test_a_failed_step_gives_waiting_jobs_up() -> None:
    with toy_loop() as toy:
        toy.device.gate.clear()
        turn = toy.start(_prompt(9))
        toy.device.fail_next = True
        errors: list[Exception] = []

        def wait() -> None:
            try:
                toy.loop.perform(iter([None, None]))
            except GenerationFailed as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        _wait_for_job(toy)
        toy.device.gate.set()
        thread.join(WAIT_S)
        turn.finish()
        assert len(errors) == 1


def test_a_closing_loop_gives_jobs_up_and_takes_no_more() -> None:
    with toy_loop() as toy:
        toy.device.gate.clear()
        toy.start(_prompt(9), limit=50)
        errors: list[Exception] = []

        def wait() -> None:
            try:
                toy.loop.perform(iter([None] * 1000))
            except ServerShuttingDown as error:
                errors.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        _wait_for_job(toy)
        closer = threading.Thread(target=toy.loop.close)
        closer.start()
        threading.Event().wait(0.02)
        toy.device.gate.set()
        closer.join(WAIT_S)
        waiter.join(WAIT_S)
        assert len(errors) == 1
        with pytest.raises(ServerShuttingDown):
            toy.loop.perform(iter([None]))


def test_drain_refuses_what_waits_and_runs_on() -> None:
    """Reference, unload and shutdown: running requests finish."""
    with toy_loop(rows=1) as toy:
        toy.device.gate.clear()
        running, waiting = toy.start(_prompt(9), "s"), toy.start(_prompt(9), "t")
        toy.loop.drain(ServerShuttingDown("going down"))
        toy.loop.drain(ServerShuttingDown("said before"))
        with pytest.raises(ServerShuttingDown, match="going down"):
            waiting.stream.wait_admitted(WAIT_S)
        with pytest.raises(ServerShuttingDown):
            toy.start(_prompt(9), "u")
        assert len(toy.table) == 2, "a refused turn makes no session"
        toy.device.gate.set()
        tokens, end = running.finish()
        assert isinstance(end, Finished) and tokens == cold_answer(_prompt(9), 8)
        assert toy.loop.idle


def test_the_measured_pace_is_the_schedulers() -> None:
    """Scenario 173: a stream beside a long prefill keeps half of its rate."""
    with toy_loop(pages=200) as toy:
        toy.ask(_prompt(200), limit=30)
        toy.measured()
        toy.loop.times._decode, toy.loop.times._prefill = 0.1, 0.35
        toy.loop.times.add = lambda *_, **__: None  # type: ignore[method-assign]
        toy.device.gate.clear()
        stream = toy.start(_prompt(9), limit=200)
        long = toy.start(_prompt(128 * 8, first=3), limit=1)
        toy.device.decoded.clear()
        chunks: list[int] = []
        prefill = toy.device.prefill

        def counted(*arguments: object) -> object:
            chunks.append(len(toy.device.decoded))
            return prefill(*arguments)

        toy.device.prefill = counted  # type: ignore[method-assign, assignment]
        toy.device.gate.set()
        long.finish(), stream.finish()
        assert chunks == list(range(0, 36, 4)), "four steps of the stream for each chunk"
