"""A cached answer is never wrong (scenarios I): every turn against a cold run over the same ids.

The reference allows a turn resumed over generated tokens to differ where the two best
log-probabilities lie closer than `_TOLERANCE`: those tokens were computed by decode steps, which
round differently from prefill. Everything else is equal token for token.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from tests.engine.live_model import LiveModel, Turn, live_model
from tests.golden import golden_file

_TOLERANCE = 1e-3
_MODELS = [
    ("llama-smollm", Precision.FLOAT32),
    ("llama-minicpm5", Precision.FLOAT32),
    ("llama-smollm", Precision.DEFAULT),
]
_RANDOM = np.random.default_rng(4)
_IDS = [int(token) for token in _RANDOM.integers(5, 200, 600)]


@pytest.fixture(scope="module", params=_MODELS, ids=lambda one: f"{one[0]}-{one[1].value}")
def model(request: pytest.FixtureRequest) -> Iterator[LiveModel]:
    name, precision = request.param
    path = golden_file(f"models/{name}-f32.gguf")
    with live_model(path, precision=precision) as running:
        yield running
        running.check()


def agree(resumed: Turn, cold: Turn) -> None:
    """Equal up to a place at which the cold run could not decide either."""
    for place, (left, right) in enumerate(zip(resumed.tokens, cold.tokens, strict=True)):
        if left != right:
            assert cold.margins[place] < _TOLERANCE, f"different at {place}"
            return


def test_an_answer_is_the_same_alone_and_beside_seven_others(model: LiveModel) -> None:
    prompt = _IDS[:150]
    seeded = RowSampling(0.9, 0.95, 40, 77)
    alone = model.ask(prompt).tokens
    alone_seeded = model.start(prompt, sampling=seeded).tokens
    others = [model.start(_IDS[i * 7 : i * 7 + 40 + 30 * i], limit=40) for i in range(1, 6)]
    greedy, sampled = model.start(prompt), model.start(prompt, sampling=seeded)
    assert greedy.tokens == alone
    assert sampled.tokens == alone_seeded
    assert all(len(other.tokens) == 40 for other in others)


def test_an_answer_is_the_same_after_an_identical_prompt_was_cached(model: LiveModel) -> None:
    """Scenario 155: a retry computes at least one token, and samples the same."""
    prompt = _IDS[100:333]
    cold = model.ask(prompt, "retry")
    again = model.ask(prompt, "retry")
    assert again.cached == len(prompt) - 1
    assert again.tokens == cold.tokens == model.ask(prompt).tokens


def test_ten_turns_resume_and_agree_with_cold_runs(model: LiveModel) -> None:
    history = _IDS[:70]
    held = 0
    for turn in range(10):
        resumed = model.ask(history, "long")
        assert resumed.cached == held, "all that the turn before held is used"
        agree(resumed, model.ask(history))
        held = len(history) + len(resumed.tokens) - 1
        assert resumed.finished.usage.kv_used == held
        history = history + resumed.tokens + _IDS[turn * 11 : turn * 11 + 20]
    model.check()


def test_an_edited_turn_uses_what_is_before_the_edit_alone(model: LiveModel) -> None:
    """Scenario 154: an earlier message changed."""
    history = _IDS[:300]
    model.ask(history, "edit")
    edited = [*history[:130], 7, *history[131:]]
    resumed = model.ask(edited, "edit")
    assert resumed.cached == 130
    assert resumed.tokens == model.ask(edited).tokens
    back = model.ask(history, "edit")
    assert back.cached == len(history) - 1, "the first conversation is kept beside the edited one"
    assert back.tokens == model.ask(history).tokens


def test_an_aborted_turn_leaves_its_prompt_and_nothing_of_its_answer(model: LiveModel) -> None:
    """Scenario 158: a stream is closed after a token, and the next turn is sent at once."""
    history = _IDS[50:250]
    aborted = model.start(history, "abort", limit=400)
    assert aborted.generation.stream.wait_admitted(60)
    assert aborted.generation.stream.next_event(60) is not None
    aborted.generation.stream.cancel()
    following = history + _IDS[:30]
    resumed = model.ask(following, "abort")
    assert resumed.cached == len(history)
    assert resumed.tokens == model.ask(following).tokens
    model.check()


def test_two_turns_of_one_session_at_once(model: LiveModel) -> None:
    """opencode sends its title request and the real turn together under one id."""
    first, second = _IDS[:180], _IDS[:90] + _IDS[300:380]
    turns = [model.start(first, "two"), model.start(second, "two")]
    answers = [turn.tokens for turn in turns]
    assert answers == [model.ask(first).tokens, model.ask(second).tokens]
    for prompt, answer in zip((first, second), answers, strict=True):
        resumed = model.ask(prompt + answer + [9, 10, 11], "two")
        assert resumed.cached == len(prompt) + len(answer) - 1
        agree(resumed, model.ask(prompt + answer + [9, 10, 11]))
        assert not resumed.finished.usage.session_conflict


def test_sessions_see_nothing_of_each_other(model: LiveModel) -> None:
    """Scenario 156: the same prompt under another id, or none, is cold."""
    model.ask(_IDS[:200], "mine")
    assert model.ask(_IDS[:200], "yours").cached == 0
    assert model.ask(_IDS[:200]).cached == 0
    for name in ("mine", "yours"):
        model.loop.sessions.release(name)


def test_what_is_asked_for_and_not_used_costs_no_session_its_cache(model: LiveModel) -> None:
    """A large `max_tokens` is a promise of pages, and takes none from others until it is used."""
    history = _IDS[400:500]
    model.ask(history, "quiet")
    greedy = [model.start(_IDS[:20], limit=480) for _ in range(8)]
    for turn in greedy:
        assert turn.generation.stream.wait_admitted(60)
        turn.generation.stream.cancel()
    assert model.ask([*history, 5], "quiet").cached == len(history)
    model.loop.sessions.release("quiet")


def test_a_restored_session_goes_on_as_the_exported_one(model: LiveModel) -> None:
    """Scenario 162: the next turn is resumed and equals that of the session never exported."""
    model.loop.sessions.release("edit")
    model.loop.sessions.release("long")
    history = _IDS[10:210]
    answer = model.ask(history, "source").tokens
    snapshot = model.transfer.export("source")
    assert list(snapshot.tokens) == history + answer[:-1]
    blob = b"".join(bytes(piece) for piece in snapshot.blob)
    assert len(blob) == snapshot.blob_bytes
    assert model.transfer.restore("copy", blob, snapshot.tokens) == len(snapshot.tokens)
    following = history + answer + _IDS[:40]
    for _ in range(3):
        original, copy = model.ask(following, "source"), model.ask(following, "copy")
        assert copy.cached == original.cached >= len(snapshot.tokens)
        assert copy.tokens == original.tokens
        following = following + copy.tokens + [5, 6, 7]
    model.check()
