"""Sessions over a whole model, by messages (reference, `session_id`, `cached_tokens`)."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import (
    ContextOverBudget,
    GenerationFailed,
    ServerMemoryConstrained,
    SessionCachingDisabled,
    SessionCapacity,
)
from pantheon.engine.events import Failed, Finished, TextDelta
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance
from pantheon.engine.requests import CompletionRequest, Sampling
from pantheon.engine.tokenizer import Tokenizer, Vocabulary
from tests.golden import golden_file

_WAIT_S = 60.0
_MODEL = "llama-smollm"
_FILE = golden_file(f"models/{_MODEL}-f32.gguf")
_TOKENIZER = Tokenizer(Vocabulary.from_metadata(GGUFFile(_FILE).metadata))


def _load(**changes: object) -> ModelInstance:
    options = ModelOptions(_FILE, name="tiny", max_sessions=2)
    config = EngineConfig(models=(), backend="cpu", build="unknown", **changes)  # type: ignore[arg-type]
    return load_instance(options, config)


@pytest.fixture(scope="module")
def model() -> Iterator[ModelInstance]:
    loaded = _load()
    yield loaded
    loaded.close()


def _ask(
    model: ModelInstance,
    messages: list[Mapping[str, str]],
    session: str | None,
    **changes: object,
) -> tuple[str, Finished]:
    request = CompletionRequest(
        None,
        tuple(messages),
        session_id=session,
        max_tokens=12,
        **changes,  # type: ignore[arg-type]
    )
    completion = model.submit(request)
    assert completion.wait_admitted(_WAIT_S)
    text = ""
    while True:
        event = completion.next_event(_WAIT_S)
        assert event is not None and not isinstance(event, Failed)
        if isinstance(event, TextDelta):
            text += event.text
        if isinstance(event, Finished):
            return text, event


def _letters() -> Sampling:
    """A greedy choice among single letters, whose text encodes to other, longer tokens."""
    vocabulary = _TOKENIZER.vocabulary
    letters = [vocabulary.tokens.index(letter) for letter in "the"]
    return Sampling(temperature=5.0, seed=3, logit_bias=tuple((t, 100.0) for t in letters))


def test_an_answer_that_encodes_to_other_tokens_is_found_again(model: ModelInstance) -> None:
    """Matched text by text: the sampled tokens stand in the next prompt, or the cache would be
    lost without a word."""
    question = {"role": "user", "content": "spell the"}
    text, first = _ask(model, [question], "letters", sampling=_letters())
    encoded = _TOKENIZER.encode(text, special=False)
    assert len(encoded) < first.usage.completion_tokens, "its text has a shorter encoding"
    following = [question, {"role": "assistant", "content": text}, question]
    _, second = _ask(model, following, "letters", sampling=_letters())
    held = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert second.usage.cached_tokens == first.usage.kv_used == held
    model.release_session("letters")


def test_an_answer_that_was_edited_is_not_taken_for_the_sampled_one(model: ModelInstance) -> None:
    question = {"role": "user", "content": "spell the"}
    text, first = _ask(model, [question], "edited", sampling=_letters())
    following = [question, {"role": "assistant", "content": "!" + text[1:]}, question]
    _, second = _ask(model, following, "edited", sampling=_letters())
    assert second.usage.cached_tokens == first.usage.prompt_tokens
    model.release_session("edited")


def test_a_third_session_is_refused_until_one_is_released(model: ModelInstance) -> None:
    """Scenario 166: the cap counts ids; the message estimates the re-prefill."""
    hello: list[Mapping[str, str]] = [{"role": "user", "content": "hello"}]
    for name in ("one", "two"):
        _ask(model, hello, name)
    with pytest.raises(SessionCapacity, match=r"takes about [0-9.]+ s") as refused:
        _ask(model, hello, "three")
    assert refused.value.retry_after == 30
    _ask(model, hello, None)
    _ask(model, [{"role": "user", "content": "another conversation"}], "one")
    model.release_session("two")
    _ask(model, hello, "three")
    for name in ("one", "three"):
        model.release_session(name)


def test_without_a_session_cache_ids_are_accepted_and_routes_refused() -> None:
    """Reference, export: session_caching_disabled."""
    loaded = _load(session_cache=False)
    try:
        hello: list[Mapping[str, str]] = [{"role": "user", "content": "hello"}]
        for name in ("a", "b", "c", "a"):
            assert _ask(loaded, hello, name)[1].usage.cached_tokens == 0
        for refused in (
            lambda: loaded.export_session("a"),
            lambda: loaded.restore_session("a", b"", [1]),
            lambda: loaded.watch_session("a"),
        ):
            with pytest.raises(SessionCachingDisabled):
                refused()
        loaded.release_session("a")
    finally:
        loaded.close()


def test_pressure_clamps_what_is_stated_and_recovers(tmp_path: Path) -> None:
    """Reference: `context_window` is the effective one, the same number as `kv_cap`."""
    pressure = tmp_path / "pressure"
    loaded = _load(pressure_file=pressure)
    hello: list[Mapping[str, str]] = [{"role": "user", "content": "hello"}]
    long: list[Mapping[str, str]] = [{"role": "user", "content": "hello " * 300}]
    try:
        quiet = loaded.status()
        assert quiet.context_window == quiet.context_window_configured
        _ask(loaded, long, None)
        pressure.write_text("0.96")
        _until(lambda: loaded.status().context_window < quiet.context_window)
        tight = loaded.status()
        assert tight.max_concurrent < tight.max_concurrent_configured
        assert tight.context_window_configured == quiet.context_window_configured
        assert _ask(loaded, hello, None)[1].usage.kv_cap == tight.context_window
        with pytest.raises(ContextOverBudget) as refused:
            _ask(loaded, long, None)
        assert refused.value.kv_cap == tight.context_window
        pressure.write_text("0.99")
        _until(lambda: _refuses(loaded, hello))
        pressure.write_text("0.1")
        _until(lambda: loaded.status().context_window == quiet.context_window)
        _ask(loaded, long, None)
    finally:
        loaded.close()


def _refuses(model: ModelInstance, messages: list[Mapping[str, str]]) -> bool:
    try:
        _ask(model, messages, None)
    except ServerMemoryConstrained:
        return True
    return False


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_watch_outlives_its_model(model: ModelInstance) -> None:
    """Scenario 192: an unload ends the watches; their connections close after it."""
    loaded = _load()
    watch = loaded.watch_session("held")
    assert not watch.wait_ended(0)
    loaded.close()
    assert watch.wait_ended(0)
    watch.close()


def test_an_instance_that_cannot_start_over_says_so_and_its_row_is_honest() -> None:
    """Reference, 500 `server_error`, and `max_concurrent` of `GET /admin/models`."""
    model = _load()
    try:
        assert model.serves and model.rows == 2 and model.free_sessions == 2

        def fails(*arguments: object) -> None:
            raise RuntimeError("the device is gone")

        model._runner.decode = fails  # type: ignore[method-assign,assignment]
        model._runner._empty_state = fails  # type: ignore[method-assign,assignment]
        hello = ({"role": "user", "content": "hello"},)
        completion = model.submit(CompletionRequest(None, hello, session_id="s"))
        assert completion.wait_admitted(_WAIT_S)
        assert isinstance(completion.next_event(_WAIT_S), Failed)
        model._loop._thread.join(_WAIT_S)
        assert not model.serves and model.idle
        for call in (
            lambda: model.submit(CompletionRequest(None, hello)),
            lambda: model.submit(CompletionRequest(None, hello, session_id="s")),
        ):
            with pytest.raises(GenerationFailed, match="serves no more"):
                call()
        row = model.status()
        assert (row.serves, row.max_concurrent, row.max_sessions) == (False, 0, 0)
        assert row.max_concurrent_configured == 2
        assert 0 < row.vram_bytes == sum(model._runner._weight_bytes.values())
    finally:
        model.close()
