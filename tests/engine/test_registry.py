"""Loading, unloading and routing of models, over a loader that loads nothing.

Reference: `POST /admin/models/load`, `POST /admin/models/unload`, `model` of a completion, and the
session routes. Scenarios: unload during a generation, concurrent loads, failures give all back.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import (
    EngineError,
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    NoModelsLoaded,
    ServerShuttingDown,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.face import Completion, Watch
from pantheon.engine.model_table import Reservation
from pantheon.engine.registry import Registry
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import UNMEASURED_PREFILL_RATE, ModelStatus, PrefillRate
from pantheon.engine.testing import scripted_model

_SOON = 10.0


class _Model:
    """A model that generates as long as it is told to."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.generating = False
        self.drained = False
        self.refusal: EngineError | None = None
        self.closed = threading.Event()
        self.calls: list[object] = []
        self.largest_blob_bytes = len(name)
        self.prefill_tokens_per_s = 250.0
        self.dies: tuple[int, ...] = ()
        self.load = 0
        self.rows = 1
        self.free_sessions = 1
        self.serves = True
        self.weights_version = 1

    def holds_session(self, session_id: str) -> bool:
        return False

    def status(self) -> ModelStatus:
        return scripted_model(self.id)

    def submit(self, request: CompletionRequest) -> Completion:
        raise _Reached(self.id)

    def export_session(self, session_id: str) -> SessionSnapshot:
        raise _Reached((self.id, session_id))

    def restore_session(self, session_id: str, blob: bytes, tokens: Sequence[int]) -> int:
        raise _Reached((self.id, session_id, blob, tuple(tokens)))

    def release_session(self, session_id: str) -> None:
        raise _Reached((self.id, session_id))

    def watch_session(self, session_id: str) -> Watch:
        raise _Reached((self.id, session_id))

    def drain(self, refusal: EngineError) -> None:
        self.drained = True
        self.refusal = self.refusal or refusal

    @property
    def idle(self) -> bool:
        return not self.generating

    def close(self) -> None:
        self.generating = False
        self.closed.set()


class _Reached(Exception):
    """A call came through to a model."""


class _Loader:
    """Gives out fake models; may be held up, and fails where told to."""

    def __init__(self) -> None:
        self.models: dict[str, _Model] = {}
        self.failures: dict[str, Exception] = {}
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Semaphore(0)
        self.active = 0
        self.most_active = 0
        self.order: list[str] = []

    def __call__(
        self,
        options: ModelOptions,
        config: EngineConfig,
        check: Callable[[], None],
        check_weights: Callable[[int], None],
    ) -> _Model:
        name = options.name or options.path.stem
        self.order.append(name)
        self.active += 1
        self.most_active = max(self.active, self.most_active)
        try:
            self.entered.release()
            deadline = time.monotonic() + _SOON
            while not self.go.wait(0.005):
                check()
                assert time.monotonic() < deadline
            if name in self.failures:
                raise self.failures[name]
            self.models[name] = _Model(name)
            return self.models[name]
        finally:
            self.active -= 1


@pytest.fixture
def loader() -> _Loader:
    return _Loader()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def _registry(loader: _Loader, **config: object) -> Registry:
    return Registry(
        EngineConfig(models=(), backend="cpu", build="test", **config),  # type: ignore[arg-type]
        loader,
    )


def _options(name: str) -> ModelOptions:
    return ModelOptions(path=Path(f"/models/{name}.gguf"))


def _listed(registry: Registry) -> list[str]:
    return [row.id for row in registry.models()]


def _request(model: str | None) -> CompletionRequest:
    return CompletionRequest(model=model, messages=())


def _routed(registry: Registry, model: str | None) -> object:
    with pytest.raises(_Reached) as reached:
        registry.submit(_request(model))
    return reached.value.args[0]


def _refused(call: Callable[[], object]) -> LoadFailure | UnloadFailure:
    with pytest.raises((LoadFailed, UnloadFailed)) as refused:
        call()
    return refused.value.failure


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_models_are_listed_and_routed_in_the_order_of_loading(loader: _Loader) -> None:
    """Reference, `model`: one model takes every name, several only their own."""
    registry = _registry(loader)
    with pytest.raises(NoModelsLoaded):
        registry.submit(_request("a"))
    row = registry.load(_options("b"))
    assert row is not None and row.id == "b"
    assert [_routed(registry, name) for name in (None, "b", "anything")] == ["b", "b", "b"]
    registry.load(_options("a"))
    assert _listed(registry) == ["b", "a"]
    assert [_routed(registry, name) for name in ("a", "b")] == ["a", "b"]
    for name in (None, "", "c", "A", "x" * 10_000):
        with pytest.raises(ModelNotFound) as refused:
            registry.submit(_request(name))
        assert len(str(refused.value)) < 250


def test_session_calls_go_to_the_named_model_or_the_first(loader: _Loader) -> None:
    """Reference, session routes: `name` absent is the default model, unknown is not found."""
    registry = _registry(loader)
    calls: list[tuple[Callable[[str | None], object], tuple[object, ...]]] = [
        (lambda name: registry.export_session(name, "s"), ("s",)),
        (lambda name: registry.restore_session(name, "s", b"x", [1]), ("s", b"x", (1,))),
        (lambda name: registry.release_session(name, "s"), ("s",)),
        (lambda name: registry.watch_session(name, "s"), ("s",)),
    ]
    for call, _ in calls:
        for name in (None, "a"):
            with pytest.raises(ModelNotFound):
                call(name)
    assert registry.largest_blob_bytes() == 0
    assert registry.prefill_rate(None) == PrefillRate("", UNMEASURED_PREFILL_RATE)
    registry.load(_options("first"))
    registry.load(_options("2nd"))
    for call, expected in calls:
        for name, reached in ((None, "first"), ("first", "first"), ("2nd", "2nd")):
            with pytest.raises(_Reached) as came:
                call(name)
            assert came.value.args[0] == (reached, *expected)
        with pytest.raises(ModelNotFound, match="unknown"):
            call("unknown")
    assert registry.largest_blob_bytes() == len("first")
    assert registry.prefill_rate("2nd") == PrefillRate("2nd", 250.0)
    assert registry.prefill_rate(None) == PrefillRate("first", 250.0)
    assert registry.prefill_rate("unknown") == PrefillRate("", UNMEASURED_PREFILL_RATE)
    registry.unload("first")
    with pytest.raises(ModelNotFound):
        registry.release_session("first", "s")
    with pytest.raises(_Reached):
        registry.release_session(None, "s")


def test_a_name_is_taken_from_the_start_of_its_load_to_the_end_of_its_unload(
    loader: _Loader, pool: ThreadPoolExecutor
) -> None:
    """Scenario: two loads of one name, load while loading, load while unloading: 409 each."""
    registry = _registry(loader, unload_drain_s=_SOON)
    loader.go.clear()
    first = pool.submit(registry.load, _options("a"))
    assert loader.entered.acquire(timeout=_SOON)
    assert _refused(lambda: registry.load(_options("a"))) is LoadFailure.CONFLICT
    assert _refused(lambda: registry.unload("a")) is UnloadFailure.NOT_LOADED
    other = ModelOptions(path=Path("/elsewhere/a-00001-of-00002.gguf"))
    assert _refused(lambda: registry.load(other)) is LoadFailure.CONFLICT
    loader.go.set()
    assert first.result(_SOON) is not None
    assert _refused(lambda: registry.load(_options("a"))) is LoadFailure.CONFLICT
    loader.models["a"].generating = True
    leaving = pool.submit(registry.unload, "a")
    _until(lambda: loader.models["a"].drained)
    assert _refused(lambda: registry.load(_options("a"))) is LoadFailure.CONFLICT
    assert _refused(lambda: registry.unload("a")) is UnloadFailure.CONFLICT
    loader.models["a"].generating = False
    leaving.result(_SOON)
    assert _refused(lambda: registry.unload("a")) is UnloadFailure.NOT_LOADED
    assert registry.load(_options("a")) is not None


def test_one_upload_at_a_time_in_the_order_of_asking(
    loader: _Loader, pool: ThreadPoolExecutor
) -> None:
    """Reference: serialised against other uploads."""
    registry = _registry(loader)
    loader.go.clear()
    names = ["c", "a", "d", "b"]
    loads: list[Future[ModelStatus | None]] = []
    for index, name in enumerate(names):
        loads.append(pool.submit(registry.load, _options(name)))
        if index == 0:
            assert loader.entered.acquire(timeout=_SOON)
        else:
            # Its name is taken just before it asks for its turn.
            _until(lambda name=name: _is_loading(registry, name))  # type: ignore[misc]
            again = _options(name)
            assert _refused(lambda again=again: registry.load(again)) is LoadFailure.CONFLICT  # type: ignore[misc]
            time.sleep(0.02)
    assert loader.order == ["c"]
    assert _listed(registry) == []
    loader.go.set()
    for load in loads:
        assert load.result(_SOON) is not None
    assert (loader.most_active, loader.order) == (1, names)
    assert _listed(registry) == names


def _is_loading(registry: Registry, name: str) -> bool:
    """Whether a load has taken a name. A load that asked might take it first, and wait."""
    return any(place.name == name for place in registry._table._loading)


def test_everything_else_answers_while_a_model_loads_and_another_leaves(
    loader: _Loader, pool: ThreadPoolExecutor
) -> None:
    """Scenario: other routes during a load answer promptly; what loads or leaves is not served."""
    registry = _registry(loader, unload_drain_s=_SOON)
    registry.load(_options("a"))
    registry.load(_options("b"))
    loader.models["b"].generating = True
    leaving = pool.submit(registry.unload, "b")
    _until(lambda: loader.models["b"].drained)
    loader.go.clear()
    loading = pool.submit(registry.load, _options("c"))
    assert loader.entered.acquire(timeout=_SOON)
    answered = pool.submit(
        lambda: (
            registry.platform().backend,
            _listed(registry),
            _routed(registry, "a"),
            registry.dies(),
            registry.prefill_rate("b").model,
            registry.largest_blob_bytes(),
            registry.idle,
        )
    )
    assert answered.result(_SOON) == ("cpu", ["a"], "a", (), "", 1, False)
    assert not loading.done() and not leaving.done()
    loader.models["b"].generating = False
    leaving.result(_SOON)
    assert registry.idle and not loading.done(), "an unload waits for no upload"
    loader.go.set()
    loading.result(_SOON)
    assert _listed(registry) == ["a", "c"]


def test_the_registry_is_full_at_its_stated_maximum(
    loader: _Loader, pool: ThreadPoolExecutor
) -> None:
    """Reference, 507: registry full. What loads and what leaves counts too."""
    registry = _registry(loader, max_models=2, unload_drain_s=_SOON)
    registry.load(_options("a"))
    loader.go.clear()
    loading = pool.submit(registry.load, _options("b"))
    _until(lambda: _is_loading(registry, "b"))
    assert _refused(lambda: registry.load(_options("b"))) is LoadFailure.CONFLICT
    with pytest.raises(LoadFailed, match="at most 2 models") as refused:
        registry.load(_options("c"))
    assert refused.value.failure is LoadFailure.NO_CAPACITY
    assert _refused(lambda: registry.load(_options("a"))) is LoadFailure.CONFLICT
    loader.go.set()
    loading.result(_SOON)
    loader.models["a"].generating = True
    leaving = pool.submit(registry.unload, "a")
    _until(lambda: loader.models["a"].drained)
    assert _refused(lambda: registry.load(_options("c"))) is LoadFailure.NO_CAPACITY
    loader.models["a"].generating = False
    leaving.result(_SOON)
    assert registry.load(_options("c")) is not None


@pytest.mark.parametrize("failure", list(LoadFailure))
def test_a_failed_load_keeps_its_class_and_frees_its_name(
    loader: _Loader, failure: LoadFailure
) -> None:
    registry = _registry(loader, max_models=1)
    loader.failures["a"] = LoadFailed(failure, "no")
    for _ in range(3):
        assert _refused(lambda: registry.load(_options("a"))) is failure
    assert registry.models() == ()
    loader.failures.clear()
    assert registry.load(_options("a")) is not None


def test_what_no_load_should_raise_is_another_failure_and_shows_nothing(loader: _Loader) -> None:
    """Reference, 500: other load failure. The cause stays in the log."""
    registry = _registry(loader)
    loader.failures["a"] = ZeroDivisionError("secret detail")
    with pytest.raises(LoadFailed) as refused:
        registry.load(_options("a"))
    assert refused.value.failure is LoadFailure.OTHER
    assert "secret" not in str(refused.value)
    loader.failures.clear()
    assert registry.load(_options("a")) is not None


@pytest.mark.parametrize("kind", [ValueError, LoadFailed])
def test_a_failure_keeps_nothing_of_its_work_alive(kind: type[Exception]) -> None:
    """Scenario, load failure leaks memory: the traceback must not hold the arrays."""
    made: list[weakref.ref[np.ndarray]] = []

    def fails(options: ModelOptions, config: EngineConfig, *checks: object) -> _Model:
        array = np.zeros(1000)
        made.append(weakref.ref(array))
        try:
            raise KeyError("inner")
        except KeyError as error:
            if kind is LoadFailed:
                raise LoadFailed(LoadFailure.OTHER, "no") from error
            raise ValueError("no") from error

    registry = Registry(EngineConfig(models=(), backend="cpu", build="test"), fails)
    with pytest.raises(LoadFailed) as refused:
        registry.load(_options("a"))
    # The error is still referred to here, as by a handler that makes an answer of it.
    assert refused.value.__cause__ is None and refused.value.__context__ is None
    gc.collect()
    assert [reference() for reference in made] == [None]


def test_an_unload_lets_running_answers_end(loader: _Loader, pool: ThreadPoolExecutor) -> None:
    """Reference: drains any in-flight generation before freeing; scenario: new chats are
    refused at once."""
    registry = _registry(loader, unload_drain_s=60)
    registry.load(_options("a"))
    model = loader.models["a"]
    model.generating = True
    leaving = pool.submit(registry.unload, "a")
    _until(lambda: model.drained)
    with pytest.raises(NoModelsLoaded):
        registry.submit(_request("a"))
    assert registry.models() == () and not registry.idle
    time.sleep(0.1)
    assert not model.closed.is_set() and not leaving.done()
    model.generating = False
    leaving.result(_SOON)
    assert model.closed.is_set() and registry.idle


def test_an_answer_that_never_ends_delays_an_unload_only_so_long(loader: _Loader) -> None:
    """Scenario: a stalled client must not block the drain for ever."""
    registry = _registry(loader, unload_drain_s=0.2)
    registry.load(_options("a"))
    loader.models["a"].generating = True
    registry.unload("a")
    assert loader.models["a"].closed.is_set()
    assert registry.load(_options("a")) is not None


def test_an_unload_that_fails_frees_the_name_and_says_so(
    loader: _Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference, 500: other failure."""
    registry = _registry(loader)
    registry.load(_options("a"))

    def fail() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(loader.models["a"], "close", fail)
    with pytest.raises(UnloadFailed) as refused:
        registry.unload("a")
    assert refused.value.failure is UnloadFailure.OTHER
    assert "secret" not in str(refused.value)
    assert registry.load(_options("a")) is not None


@pytest.mark.parametrize("name", ["", "A", "a ", "x" * 10_000, "\0", "\ud800"])
def test_an_unknown_name_is_not_loaded(loader: _Loader, name: str) -> None:
    registry = _registry(loader)
    registry.load(_options("a"))
    with pytest.raises(UnloadFailed) as refused:
        registry.unload(name)
    assert refused.value.failure is UnloadFailure.NOT_LOADED
    message = str(refused.value)
    assert len(message) < 1000 and message.isprintable()
    assert _listed(registry) == ["a"]


def test_a_drain_refuses_what_comes_and_ends_loads(
    loader: _Loader, pool: ThreadPoolExecutor
) -> None:
    registry = _registry(loader)
    registry.load(_options("a"))
    loader.models["a"].generating = True
    loader.go.clear()
    loads = [pool.submit(registry.load, _options(name)) for name in ("b", "c")]
    _until(lambda: _is_loading(registry, "b") and _is_loading(registry, "c"))
    registry.drain()
    registry.drain()
    for load in loads:
        with pytest.raises(ServerShuttingDown):
            load.result(_SOON)
    for call in (
        lambda: registry.submit(_request("a")),
        lambda: registry.load(_options("d")),
        lambda: registry.export_session(None, "s"),
        lambda: registry.restore_session(None, "s", b"", [1]),
        lambda: registry.watch_session(None, "s"),
    ):
        with pytest.raises(ServerShuttingDown):
            call()
    assert isinstance(loader.models["a"].refusal, ServerShuttingDown)
    assert loader.models["a"].drained and not loader.models["a"].closed.is_set()
    assert not registry.idle and _listed(registry) == ["a"]
    registry.close()
    registry.close()
    assert loader.models["a"].closed.is_set() and registry.idle


def test_a_close_ends_an_unload_that_waits(loader: _Loader, pool: ThreadPoolExecutor) -> None:
    registry = _registry(loader, unload_drain_s=600)
    registry.load(_options("a"))
    loader.models["a"].generating = True
    leaving = pool.submit(registry.unload, "a")
    _until(lambda: loader.models["a"].drained)
    registry.close()
    leaving.result(_SOON)
    assert loader.models["a"].closed.is_set()
    refusal = loader.models["a"].refusal
    assert isinstance(refusal, ModelNotFound), "the model goes and not the server"


def test_a_load_that_ends_after_the_close_is_closed_too() -> None:
    loader = _Loader()
    registry = _registry(loader)
    loaded: list[_Model] = []

    def closes(options: ModelOptions, config: EngineConfig, *checks: object) -> _Model:
        registry.close()
        loaded.append(_Model("a"))
        return loaded[0]

    registry._loader = closes
    with pytest.raises(ServerShuttingDown):
        registry.load(_options("a"))
    assert loaded[0].closed.is_set() and registry.models() == ()


def test_a_model_that_is_unloaded_before_its_row_is_read_has_none(loader: _Loader) -> None:
    """Reference: `{"status":"loaded"}` when the row cannot be found (race)."""
    registry = _registry(loader)
    publish = registry._table.publish

    def publish_and_lose(place: Reservation, model: _Model) -> None:
        publish(place, model)
        registry.unload(place.name)

    registry._table.publish = publish_and_lose  # type: ignore[method-assign,assignment]
    assert registry.load(_options("a")) is None


def test_traffic_at_random_never_breaks_a_rule(loader: _Loader, pool: ThreadPoolExecutor) -> None:
    """Eight threads load and unload three names: at every time at most one model of a name,
    at most two names, one upload; in the end every name is free."""
    registry = _registry(loader, max_models=2, unload_drain_s=1)
    end = time.monotonic() + 1.5

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        while time.monotonic() < end:
            name = "abc"[random.integers(3)]
            try:
                if random.random() < 0.5:
                    registry.load(_options(name))
                else:
                    registry.unload(name)
            except EngineError:
                pass
            listed = _listed(registry)
            assert len(set(listed)) == len(listed) <= 2

    for result in [pool.submit(work, seed) for seed in range(8)]:
        result.result(_SOON)
    assert loader.most_active == 1
    for name in _listed(registry):
        registry.unload(name)
    assert registry.idle
    registry.load(_options("a"))
    registry.load(_options("b"))
    assert _listed(registry) == ["a", "b"]
