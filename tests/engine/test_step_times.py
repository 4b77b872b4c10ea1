"""The pace at which prompts are prefilled beside running streams, and the measured rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.step_times import StepTimes


def _measured(decode: float, chunk: float) -> StepTimes:
    """A decode step alone, and a chunk of 128 tokens alone."""
    times = StepTimes(128)
    times.add(decode, batch=1, prefilled=0)
    times.add(chunk, batch=0, prefilled=128)
    return times


def test_nothing_is_known_before_anything_was_measured() -> None:
    times = StepTimes(128)
    assert (times.pace, times.prefill_tokens_per_s) == (None, None)
    times.add(0.1, batch=1, prefilled=0)
    assert (times.pace, times.prefill_tokens_per_s) == (None, None)
    times = StepTimes(128)
    times.add(0.1, batch=0, prefilled=128)
    assert times.pace is None and times.prefill_tokens_per_s == pytest.approx(1280)


@pytest.mark.parametrize(
    ("decode", "chunk", "pace"),
    [(0.1, 0.05, 0), (0.1, 0.1, 0), (0.1, 0.11, 1), (0.1, 0.95, 9), (0.01, 10.0, 64)],
)
def test_the_pace_by_numbers(decode: float, chunk: float, pace: int) -> None:
    """pace = ceil(chunk / decode) - 1, at least 0 and at most 64."""
    assert _measured(decode, chunk).pace == pace


@given(st.floats(0.001, 1.0), st.floats(0.001, 1.0))
def test_a_running_stream_keeps_half_of_its_rate(decode: float, chunk: float) -> None:
    """Scenario 173: pace + 1 decode steps take at least as long as the chunk beside them."""
    pace = _measured(decode, chunk).pace
    assert pace is not None
    if pace < 64:
        steps = pace + 1
        rate = steps / (steps * decode + chunk)
        assert rate >= 0.5 / decode * (1 - 1e-9)
        assert pace == 0 or pace * decode < chunk, "and no slower than needed"


def test_a_chunk_beside_rows_is_measured_without_their_decode() -> None:
    times = StepTimes(128)
    times.add(0.1, batch=1, prefilled=0)
    times.add(0.5, batch=1, prefilled=128)
    assert times.pace == 3
    assert times.prefill_tokens_per_s == pytest.approx(128 / 0.4)


def test_a_chunk_that_seems_to_take_no_time_is_left_out() -> None:
    times = _measured(0.1, 0.5)
    before = times.prefill_tokens_per_s
    times.add(0.05, batch=1, prefilled=128)
    assert times.prefill_tokens_per_s == before


def test_new_measurements_outweigh_old_ones_in_time() -> None:
    """Reference, estimate: the measured rate, live."""
    times = _measured(0.1, 1.0)
    for _ in range(60):
        times.add(0.45, batch=0, prefilled=128)
        times.add(0.1, batch=1, prefilled=0)
    assert times.prefill_tokens_per_s == pytest.approx(128 / 0.45, rel=0.01)
    assert times.pace == 4


def test_whole_chunks_are_measured_and_no_small_pieces() -> None:
    """Where padding takes no time, a piece of a chunk says little of the rate."""
    times = StepTimes(128)
    times.add(0.02, batch=0, prefilled=63)
    assert times.prefill_tokens_per_s is None
    times.add(0.3, batch=0, prefilled=64)
    assert times.prefill_tokens_per_s == pytest.approx(64 / 0.3), "the best that is known"
    times.add(0.5, batch=0, prefilled=128)
    times.add(0.1, batch=0, prefilled=127)
    assert times.prefill_tokens_per_s == pytest.approx(128 / 0.5)
