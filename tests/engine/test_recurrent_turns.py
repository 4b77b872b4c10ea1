"""Sessions of a model with a recurrent layer resume from checkpoints of its state.

A recurrent state cannot be rolled back (scenario 154): a turn resumes from the last checkpoint
inside what it shares with an earlier one, recomputes at most 64 tokens beside what changed, and
samples what a cold run samples.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from pantheon.engine.errors import SessionExportUnsupported
from tests.engine.live_model import LiveModel, live_model
from tests.engine.toy_recurrent import toy_recurrent
from tests.golden import golden_file

_GRID = 64
_IDS = [int(token) for token in np.random.default_rng(9).integers(5, 200, 900)]


@pytest.fixture(scope="module")
def model() -> Iterator[LiveModel]:
    toy = toy_recurrent(golden_file("models/llama-smollm-f32.gguf"))
    with live_model(toy, checkpoints=24) as running:
        yield running
        running.check()


def test_the_recurrent_layer_remembers(model: LiveModel) -> None:
    """The toy is no plain llama: what was long ago changes what is sampled."""
    tail = _IDS[:100]
    assert model.ask(_IDS[200:300] + tail).tokens != model.ask(_IDS[400:500] + tail).tokens


@pytest.mark.parametrize("size", [40, 100, 300, 700])
def test_a_turn_that_goes_on_recomputes_only_what_is_new(model: LiveModel, size: int) -> None:
    name = f"whole {size}"
    history = _IDS[:size]
    answer = model.ask(history, name).tokens
    for _ in range(3):
        history = history + answer + _IDS[800:820]
        resumed = model.ask(history, name)
        assert len(history) - resumed.cached <= 20 + 1, "the state at the turn's end was kept"
        assert resumed.tokens == model.ask(history).tokens
        answer = resumed.tokens
    model.check()
    model.loop.sessions.release(name)


@pytest.mark.parametrize("size", [100, 130, 300, 700])
def test_a_client_that_drops_the_answer_recomputes_at_most_the_grid(
    model: LiveModel, size: int
) -> None:
    """Reasoning that is not sent back: the next prompt parts before the answer."""
    name = f"dropped {size}"
    history = _IDS[:size]
    model.ask(history, name)
    for cut in (0, 5):
        changed = history[: size - cut] + _IDS[850:880]
        resumed = model.ask(changed, name)
        assert resumed.cached >= size - cut - _GRID
        assert resumed.tokens == model.ask(changed).tokens
    model.loop.sessions.release(name)


def test_an_identical_prompt_again(model: LiveModel) -> None:
    """Scenario 155: llama.cpp's fault was a state that had already seen the last token."""
    cold = model.ask(_IDS[:333], "retry")
    again = model.ask(_IDS[:333], "retry")
    assert 333 - _GRID <= again.cached < 333
    assert again.tokens == cold.tokens
    model.loop.sessions.release("retry")


def test_an_edit_falls_back_to_a_checkpoint_before_it(model: LiveModel) -> None:
    model.ask(_IDS[:700], "edit")
    edited = [*_IDS[:690], 3, *_IDS[691:700]]
    resumed = model.ask(edited, "edit")
    assert 690 - _GRID <= resumed.cached <= 690
    assert resumed.tokens == model.ask(edited).tokens
    early = [*_IDS[:100], 3, *_IDS[101:700]]
    resumed = model.ask(early, "edit")
    assert resumed.cached <= 100
    assert resumed.tokens == model.ask(early).tokens
    model.loop.sessions.release("edit")


def test_rows_in_company_keep_their_own_states(model: LiveModel) -> None:
    prompts = [_IDS[i * 50 : i * 50 + 90 + i] for i in range(8)]
    alone = [model.ask(prompt).tokens for prompt in prompts]
    together = [model.start(prompt) for prompt in prompts]
    assert [turn.tokens for turn in together] == alone


def test_an_aborted_turn_does_not_leave_its_state_in_the_row(model: LiveModel) -> None:
    aborted = model.start(_IDS[:200], "abort", limit=300)
    assert aborted.generation.stream.wait_admitted(60)
    assert aborted.generation.stream.next_event(60) is not None
    aborted.generation.stream.cancel()
    resumed = model.ask(_IDS[:230], "abort")
    assert 200 - _GRID <= resumed.cached <= 200
    assert resumed.tokens == model.ask(_IDS[:230]).tokens


def test_there_is_no_snapshot_format_for_recurrent_states(model: LiveModel) -> None:
    """Reference, export: session_export_unsupported."""
    model.ask(_IDS[:50], "export")
    with pytest.raises(SessionExportUnsupported):
        model.transfer.export("export")
