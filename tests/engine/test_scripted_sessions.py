"""Sessions, watches, life of models and draining of the scripted engine, as `face` has them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from pantheon.engine import (
    CompletionRequest,
    Engine,
    Finished,
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    ModelOptions,
    ServerShuttingDown,
    SessionBusy,
    SessionCachingDisabled,
    SessionCapacity,
    SessionExportUnsupported,
    SessionNotFound,
    UnloadFailed,
    UnloadFailure,
    Usage,
    WatchUnavailable,
)
from pantheon.engine.testing import ScriptedCompletion, ScriptedEngine, scripted_model


def ask(text: str, session_id: str | None = "s", model: str | None = None) -> CompletionRequest:
    messages = ({"role": "user", "content": text},)
    return CompletionRequest(model=model, messages=messages, session_id=session_id)


def finish(completion: ScriptedCompletion) -> Usage:
    assert completion.wait_admitted(1)
    while not isinstance(event := completion.next_event(1), Finished):
        assert event is not None
    return event.usage


def turn(engine: ScriptedEngine, text: str, session_id: str | None = "s") -> Usage:
    return finish(engine.submit(ask(text, session_id)))


def test_it_is_an_engine_with_sessions() -> None:
    engine: Engine = ScriptedEngine()
    assert engine.idle
    assert engine.prefill_rate(None).model == "scripted"
    assert engine.prefill_rate("nope").model == ""


def test_turn_resumes_from_what_its_prompt_shares() -> None:
    """At least one token of a prompt is computed, and another session shares nothing."""
    engine = ScriptedEngine()
    assert turn(engine, "a b c").cached_tokens == 0
    assert turn(engine, "a b c").cached_tokens == 3
    assert turn(engine, "a b x").cached_tokens == 3
    assert turn(engine, "y").cached_tokens == 1
    assert turn(engine, "y", "other").cached_tokens == 0
    assert turn(engine, "y", None).cached_tokens == 0


def test_aborted_turn_leaves_nothing() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)])
    engine.submit(ask("a b c")).cancel()
    assert turn(engine, "a b c", "other").cached_tokens == 0
    engine.release_session(None, "other")
    assert turn(engine, "a b c").cached_tokens == 0
    engine.submit(ask("x")).cancel()
    assert turn(engine, "a b c").cached_tokens == 3


def test_sessions_are_bounded_by_ids() -> None:
    engine = ScriptedEngine([scripted_model(rows=2)])
    turn(engine, "a", "1")
    turn(engine, "a", "2")
    with pytest.raises(SessionCapacity):
        engine.submit(ask("a", "3"))
    turn(engine, "b", "1")
    turn(engine, "a", None)
    engine.release_session(None, "1")
    turn(engine, "a", "3")
    assert engine.rows_in_use == 0


def test_session_is_busy_while_a_turn_runs() -> None:
    engine = ScriptedEngine()
    turn(engine, "a")
    running = engine.submit(ask("a"))
    with pytest.raises(SessionBusy):
        engine.export_session(None, "s")
    finish(running)
    assert engine.export_session(None, "s").tokens


def test_release_beside_a_turn_forgets_what_it_leaves() -> None:
    engine = ScriptedEngine()
    running = engine.submit(ask("a"))
    engine.release_session(None, "s")
    finish(running)
    with pytest.raises(SessionNotFound):
        engine.export_session(None, "s")


def test_exported_session_goes_on_elsewhere() -> None:
    engine, other = ScriptedEngine(), ScriptedEngine()
    kv_used = turn(engine, "a b c").kv_used
    snapshot = engine.export_session(None, "s")
    assert len(snapshot.tokens) == kv_used
    assert all(len(piece) % 3 for piece in snapshot.blob)
    blob = b"".join(snapshot.blob)
    assert len(blob) == snapshot.blob_bytes <= engine.largest_blob_bytes()
    assert other.restore_session(None, "t", blob, snapshot.tokens) == kv_used
    assert turn(other, "a b c", "t").cached_tokens == 3


def test_models_may_lack_sessions_or_snapshots() -> None:
    engine = ScriptedEngine(
        [scripted_model("a"), scripted_model("b")], without_sessions={"a"}, without_snapshots={"b"}
    )
    with pytest.raises(SessionCachingDisabled):
        engine.export_session("a", "s")
    with pytest.raises(SessionCachingDisabled):
        engine.watch_session("a", "s")
    with pytest.raises(SessionExportUnsupported):
        engine.export_session("b", "s")
    with pytest.raises(ModelNotFound):
        engine.release_session("c", "s")
    for _ in range(2):
        assert finish(engine.submit(ask("x", model="a"))).cached_tokens == 0


def test_session_outlives_its_last_watch_by_the_grace_period() -> None:
    engine = ScriptedEngine(watch_grace_s=0.2)
    turn(engine, "a")
    watch = engine.watch_session(None, "s")
    watch.close()
    engine.watch_session(None, "s").close()
    assert engine.export_session(None, "s").tokens
    held = engine.watch_session(None, "s")
    time.sleep(0.25)
    assert engine.export_session(None, "s").tokens
    held.close()
    time.sleep(0.25)
    with pytest.raises(SessionNotFound):
        engine.export_session(None, "s")


def test_table_of_watches_is_bounded_and_replaces_its_own() -> None:
    engine = ScriptedEngine(max_watches=1)
    first = engine.watch_session(None, "s")
    with pytest.raises(WatchUnavailable):
        engine.watch_session(None, "t")
    second = engine.watch_session(None, "s")
    assert first.wait_ended(0)
    assert not second.wait_ended(0)
    first.close()
    assert len(engine.watches) == 1
    second.close()
    second.close()
    assert len(engine.watches) == 0


def test_watch_may_end_by_itself() -> None:
    watch = ScriptedEngine(watch_s=0.05).watch_session(None, "s")
    assert not watch.wait_ended(0)
    assert watch.wait_ended(1)


def refused(engine: ScriptedEngine, path: Path, name: str | None = None) -> LoadFailure:
    with pytest.raises(LoadFailed) as caught:
        engine.load(ModelOptions(path=path, name=name))
    return caught.value.failure


def test_load_refuses_as_the_reference_has_it(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    (tmp_path / "text.txt").touch()
    engine = ScriptedEngine(max_models=2)
    assert refused(engine, tmp_path / "nope.gguf") is LoadFailure.FILE_NOT_FOUND
    assert refused(engine, tmp_path) is LoadFailure.FILE_NOT_FOUND
    assert refused(engine, tmp_path / "text.txt") is LoadFailure.OTHER
    status = engine.load(ModelOptions(path=tmp_path / "m.gguf"))
    assert status is not None and status.id == "m"
    assert refused(engine, tmp_path / "m.gguf") is LoadFailure.CONFLICT
    assert refused(engine, tmp_path / "m.gguf", "n") is LoadFailure.NO_CAPACITY
    with pytest.raises(LoadFailed) as caught:
        engine.load(ModelOptions(path=tmp_path / "m.gguf", dies=(0,)))
    assert caught.value.failure is LoadFailure.NO_ACCELERATOR


def unload_failure(engine: ScriptedEngine, name: str) -> UnloadFailure:
    with pytest.raises(UnloadFailed) as caught:
        engine.unload(name)
    return caught.value.failure


def test_unload_waits_for_what_runs() -> None:
    engine = ScriptedEngine([scripted_model("a"), scripted_model("b")])
    running = engine.submit(ask("x", model="a"))
    watch = engine.watch_session("a", "s")
    unloading = threading.Thread(target=engine.unload, args=("a",))
    unloading.start()
    while [model.id for model in engine.models()] != ["b"]:
        time.sleep(0.01)
    assert unload_failure(engine, "a") is UnloadFailure.CONFLICT
    finish(running)
    unloading.join(5)
    assert not unloading.is_alive()
    assert watch.wait_ended(0)
    assert unload_failure(engine, "a") is UnloadFailure.NOT_LOADED


def test_drain_refuses_what_is_new_and_what_waits() -> None:
    engine = ScriptedEngine([scripted_model(rows=1)])
    running, waiting = engine.submit(ask("x", "1")), engine.submit(ask("x", None))
    watch = engine.watch_session(None, "1")
    assert not engine.idle
    engine.drain()
    engine.drain()
    assert watch.wait_ended(0)
    with pytest.raises(ServerShuttingDown):
        waiting.wait_admitted(1)
    for refused_call in (
        lambda: engine.submit(ask("x")),
        lambda: engine.watch_session(None, "1"),
        lambda: engine.export_session(None, "1"),
        lambda: engine.restore_session(None, "1", b"", ()),
        lambda: engine.load(ModelOptions(path=Path("m.gguf"))),
    ):
        with pytest.raises(ServerShuttingDown):
            refused_call()
    assert not engine.idle
    finish(running)
    assert engine.idle
