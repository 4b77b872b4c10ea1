"""Sessions of a model with a recurrent layer resume from checkpoints of its state.

A recurrent state cannot be rolled back (scenario 154): a turn resumes from the last checkpoint
inside what it shares with an earlier one, recomputes at most 64 tokens beside what changed, and
samples what a cold run samples. Tokens of an answer were computed by decode steps, which round
differently from prefill: where a turn resumes over them, it may sample another token at a place
where the cold run could not decide either.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from pantheon.engine.errors import SessionExportUnsupported
from tests.engine.live_model import LiveModel, live_model
from tests.engine.model.forward import open_model
from tests.engine.test_resumed_turns import agree
from tests.engine.toy_recurrent import toy_recurrent
from tests.golden import golden_file

pytestmark = pytest.mark.timeout(300)

_GRID = 64
_IDS = [int(token) for token in np.random.default_rng(9).integers(5, 200, 900)]


@pytest.fixture(scope="module", params=["toy", "qwen35", "qwen35moe"])
def model(request: pytest.FixtureRequest) -> Iterator[LiveModel]:
    if request.param == "toy":
        opened = toy_recurrent(golden_file("models/llama-smollm-f32.gguf"))
    else:
        opened = open_model(golden_file(f"models/{request.param}-f32.gguf"))
    with live_model(opened, checkpoints=24) as running:
        yield running
        running.check()


def test_the_recurrent_layer_remembers(model: LiveModel) -> None:
    """What was long ago changes what is sampled."""
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
        agree(resumed, model.ask(history))
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


@pytest.mark.parametrize("size", [50, 200, 300])
def test_a_restored_session_goes_on_as_the_exported_one(model: LiveModel, size: int) -> None:
    """Scenario 162: the next turn resumes from the state that came with the pages."""
    history = _IDS[:size]
    answer = model.ask(history, "source").tokens
    if not model.transfer.snapshots:
        with pytest.raises(SessionExportUnsupported, match="cannot be exported"):
            model.transfer.export("source")
        return
    snapshot = model.transfer.export("source")
    blob = b"".join(bytes(piece) for piece in snapshot.blob)
    assert len(blob) == snapshot.blob_bytes <= model.transfer.largest_blob_bytes
    assert model.transfer.restore("copy", blob, snapshot.tokens) == len(snapshot.tokens)
    following = history + answer + _IDS[800:830]
    for _ in range(2):
        original, copy = model.ask(following, "source"), model.ask(following, "copy")
        assert copy.cached == original.cached >= len(snapshot.tokens) >= size
        assert copy.tokens == original.tokens
        following = following + copy.tokens + [5, 6, 7]
    model.check()
    for name in ("source", "copy"):
        model.loop.sessions.release(name)


@pytest.mark.parametrize("size", [126, 300])
def test_a_restored_session_whose_answer_is_dropped_resumes_on_the_grid(
    model: LiveModel, size: int
) -> None:
    """The blob has the last state on the grid too: a client that leaves the reasoning out parts
    from the exported conversation before its answer. One of 126 tokens passes a place of the
    grid in its answer."""
    if not model.transfer.snapshots:
        return
    history = _IDS[:size]
    model.ask(history, "source")
    snapshot = model.transfer.export("source")
    blob = b"".join(bytes(piece) for piece in snapshot.blob)
    model.transfer.restore("copy", blob, snapshot.tokens)
    changed = history + _IDS[850:880]
    resumed = model.ask(changed, "copy")
    assert size - _GRID <= resumed.cached < size
    assert resumed.tokens == model.ask(changed).tokens
    for name in ("source", "copy"):
        model.loop.sessions.release(name)
