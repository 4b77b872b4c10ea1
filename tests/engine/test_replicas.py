"""Replicas of one name on dies of their own, over a loader that loads nothing.

Reference: `GET /v1/models` (same-name replicas), `GET /admin/models` (one row each), the error
table of `POST /admin/models/load`, unload, and the session routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.dies import DieManager, find_dies
from pantheon.engine.errors import (
    EngineError,
    InvalidRequest,
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    NoModelsLoaded,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.face import Completion, Watch
from pantheon.engine.registry import Registry
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import ModelStatus
from pantheon.engine.testing import scripted_model
from tests.engine.dies.fake_device import devices_of


class _Reached(Exception):
    """A call came through to an instance on these dies."""

    def __init__(self, dies: tuple[int, ...]) -> None:
        super().__init__(dies)
        self.dies = dies


class _Instance:
    """An instance on some dies that holds the sessions it is told to."""

    largest_blob_bytes = 0
    prefill_tokens_per_s = 1.0

    def __init__(self, name: str, dies: tuple[int, ...], weights_version: int = 1) -> None:
        self.id = name
        self.dies = dies
        self.load = 0
        self.rows = 4
        self.serves = True
        self.weights_version = weights_version
        self.slots = 8
        self.sessions: set[str] = set()
        self.arriving: Callable[[], object] = lambda: None
        self.refusal: EngineError | None = None
        self.closed = False
        self.close_fails = False

    def holds_session(self, session_id: str) -> bool:
        return session_id in self.sessions

    @property
    def free_sessions(self) -> int:
        return self.slots - len(self.sessions)

    def status(self) -> ModelStatus:
        return replace(scripted_model(self.id), dies=self.dies)

    def submit(self, request: CompletionRequest) -> Completion:
        self.arriving()
        raise _Reached(self.dies)

    def export_session(self, session_id: str) -> SessionSnapshot:
        raise _Reached(self.dies)

    def restore_session(self, session_id: str, blob: bytes, tokens: Sequence[int]) -> int:
        raise _Reached(self.dies)

    def release_session(self, session_id: str) -> None:
        raise _Reached(self.dies)

    def watch_session(self, session_id: str) -> Watch:
        raise _Reached(self.dies)

    def drain(self, refusal: EngineError) -> None:
        self.refusal = self.refusal or refusal

    @property
    def idle(self) -> bool:
        return not self.load

    def close(self) -> None:
        self.closed = True
        if self.close_fails:
            raise RuntimeError("it cannot")


class _Served:
    """A registry over four dies and the instances that its loader made."""

    def __init__(self, **config: object) -> None:
        self.made: list[_Instance] = []
        self.dies = DieManager(find_dies(devices_of(100, 100, 100, 100), 0))
        self.during: Callable[[], object] = lambda: None
        self.version = 1
        self.registry = Registry(
            EngineConfig(models=(), backend="cuda", build="test", **config),  # type: ignore[arg-type]
            self._load,
            dies=self.dies,
        )

    def _load(
        self,
        options: ModelOptions,
        config: EngineConfig,
        check: Callable[[], None],
        check_weights: Callable[[int], None],
    ) -> _Instance:
        binding, version = self.dies.bind(options.name or "", options.dies, 10), self.version
        try:
            check_weights(version)
        except LoadFailed:
            binding.release()
            raise
        self.during()
        instance = _Instance(options.name or "", binding.ordinals, version)
        self.made.append(instance)
        return instance

    def load(
        self, name: str, dies: tuple[int, ...] | None, file: str = "m", **options: Any
    ) -> None:
        path = Path(f"/{file}.gguf")
        self.registry.load(ModelOptions(path=path, name=name, dies=dies, **options))

    def refused(
        self, name: str, dies: tuple[int, ...] | None, file: str = "m", **options: Any
    ) -> LoadFailure:
        with pytest.raises(LoadFailed) as refused:
            self.load(name, dies, file, **options)
        return refused.value.failure

    def went(self, call: Callable[[Registry], object]) -> tuple[int, ...]:
        """Dies of the instance that a call reached."""
        with pytest.raises(_Reached) as reached:
            call(self.registry)
        return reached.value.dies

    def chat(self, session: str | None = None, model: str | None = None) -> tuple[int, ...]:
        request = CompletionRequest(model=model, messages=(), session_id=session)
        return self.went(lambda registry: registry.submit(request))


@pytest.fixture
def served() -> _Served:
    served = _Served(max_models=8)
    served.load("m", (0,))
    served.load("m", (1, 2))
    return served


def test_every_instance_is_a_row_of_the_operator(served: _Served) -> None:
    """Reference, `GET /admin/models`; `GET /`, `dies_visible`."""
    assert [(row.id, row.dies) for row in served.registry.models()] == [("m", (0,)), ("m", (1, 2))]
    assert [row.model for row in served.registry.dies()] == ["m", "m", "m", ""]
    assert served.registry.platform().dies_visible == 4


def test_a_served_name_is_a_conflict_unless_its_dies_are_apart(served: _Served) -> None:
    """Reference, 409: model already loaded."""
    for dies in (None, (0,), (2,), (3, 1)):
        assert served.refused("m", dies) is LoadFailure.CONFLICT
    assert served.refused("m", (3,), "other") is LoadFailure.CONFLICT, "a replica is of one file"
    assert served.refused("b", (2, 3)) is LoadFailure.NO_CAPACITY, "a die binding conflict"
    assert served.refused("m", (4,)) is LoadFailure.NO_ACCELERATOR
    with pytest.raises(InvalidRequest):
        served.load("m", (3, 3))
    served.load("m", (3,))
    assert len(served.registry.models()) == 3


def test_a_name_on_a_die_that_the_engine_chose_is_apart_from_the_others() -> None:
    served = _Served(max_models=8)
    served.load("m", None)
    assert served.made[0].dies == (0,)
    assert served.refused("m", (0, 1)) is LoadFailure.CONFLICT
    served.load("m", (1,))


def test_replicas_count_as_models() -> None:
    """Reference, 507: registry full. Each has rows and a queue, for which threads are sized."""
    served = _Served(max_models=2)
    served.load("m", (0,))
    served.load("m", (1,))
    assert served.refused("m", (2,)) is LoadFailure.NO_CAPACITY


def test_one_name_with_replicas_takes_every_model_of_a_request(served: _Served) -> None:
    """Reference, `model`: with one loaded model, any value routes to it."""
    assert served.chat(model="anything") == (0,)
    served.load("b", (3,))
    assert served.chat(model="m") == (0,)
    with pytest.raises(ModelNotFound):
        served.registry.submit(CompletionRequest(model="anything", messages=()))


def test_requests_go_to_the_least_loaded(served: _Served) -> None:
    first, second = served.made
    first.load, second.load = 2, 1
    assert served.chat() == second.dies
    second.load = 2
    assert served.chat() == first.dies, "of equal ones the first"


def test_one_with_a_free_row_comes_before_those_without(served: _Served) -> None:
    """Reference, `max_concurrent`: the surplus queues."""
    first, second = served.made
    first.rows, second.rows = 1, 8
    first.load, second.load = 1, 7
    assert served.chat() == second.dies, "it has a row free"
    second.load = 8
    first.load = 2
    assert served.chat() == second.dies, "fewer would wait"
    first.load, second.load = 0, 1
    first.rows, second.rows = 2, 8
    assert served.chat() == first.dies
    first.load = 1
    assert served.chat() == second.dies, "both have rows free: a smaller share of them is taken"


def test_a_new_session_goes_where_a_session_slot_is_free(served: _Served) -> None:
    """Reference, `model_at_session_capacity`: every session slot (of the sum that is told)."""
    first, second = served.made
    first.slots = 1
    assert served.chat("gone") == first.dies
    first.sessions.add("held")
    second.load = 7
    assert served.chat("new") == second.dies
    assert served.chat("held") == first.dies
    assert served.chat("gone") == second.dies, "it is held nowhere, so it may begin elsewhere"
    second.slots = 0
    assert served.chat("other") == first.dies, "none has room: the least loaded one says so"


def test_what_is_on_its_way_to_an_instance_counts(served: _Served) -> None:
    """A prompt is rendered and tokenised before it is queued; agents come in bursts."""
    first, second = served.made
    first.slots = 1
    went: list[tuple[int, ...]] = []

    def arriving() -> None:
        first.arriving = lambda: None
        went.extend([served.chat("b"), served.chat(), served.chat("a")])

    first.arriving = arriving
    assert served.chat("a") == first.dies
    assert went == [second.dies, second.dies, first.dies], "the slot is promised to one id"
    assert served.chat("c") == first.dies, "nothing is on its way any more"


def test_what_serves_no_more_is_passed_over(served: _Served) -> None:
    """An instance that could not start over, or whose host is gone, is loaded but takes nothing."""
    first, second = served.made
    assert served.chat("s") == first.dies
    first.sessions.add("t")
    first.serves = False
    second.load = 9
    assert [served.chat(session) for session in (None, "s", "t", "u")] == [second.dies] * 4
    calls: list[Callable[[Registry], object]] = [
        lambda registry: registry.watch_session(None, "t"),
        lambda registry: registry.restore_session(None, "t", b"", [1]),
        lambda registry: registry.export_session(None, "v"),
        lambda registry: registry.release_session(None, "t"),
    ]
    assert [served.went(call) for call in calls] == [second.dies] * 4
    assert len(served.registry.models()) == 2, "an operator sees it"
    second.serves = False
    assert served.chat("s") == first.dies, "where none serves one of them says why"


def test_a_replica_is_of_the_same_weights(served: _Served) -> None:
    """Reference, 409: model already loaded. Otherwise chance chooses who answers."""
    assert served.refused("m", (3,), quantize=True) is LoadFailure.CONFLICT
    served.version = 2
    assert served.refused("m", (3,)) is LoadFailure.CONFLICT, "the file was replaced"
    assert len(served.made) == 2, "it is not compiled first"
    assert served.registry.dies()[3].n_models == 0
    served.version = 1
    served.load("m", (3,), ctx_cap=512, max_sessions=1)
    assert len(served.registry.models()) == 3


def test_a_replica_whose_weights_differ_from_one_that_came_meanwhile_never_serves() -> None:
    served = _Served(max_models=8)

    def overtaken() -> None:
        served.during = lambda: None
        other = served.registry._table.reserve("m", ModelOptions(Path("/m.gguf"), dies=(1,)))
        served.registry._table.publish(other, _Instance("m", (1,), weights_version=2))

    served.during = overtaken
    assert served.refused("m", (0,)) is LoadFailure.CONFLICT
    assert served.made[0].closed
    assert [row.dies for row in served.registry.models()] == [(1,)]


@pytest.mark.parametrize("linked", [False, True])
def test_another_spelling_of_a_path_is_the_same_file(tmp_path: Path, linked: bool) -> None:
    served = _Served(max_models=8)
    (tmp_path / "x").mkdir()
    path = tmp_path / "m.gguf"
    path.touch()
    spelling = tmp_path / "x" / ".." / "m.gguf"
    if linked:
        spelling = tmp_path / "x" / "l.gguf"
        spelling.symlink_to(path)
    served.registry.load(ModelOptions(path=path, name="m", dies=(0,)))
    served.registry.load(ModelOptions(path=spelling, name="m", dies=(1,)))
    assert [row.dies for row in served.registry.models()] == [(0,), (1,)]


def test_a_session_stays_on_its_instance(served: _Served) -> None:
    first, second = served.made
    second.sessions.add("s")
    second.load = 5
    calls: list[Callable[[Registry], object]] = [
        lambda registry: registry.export_session(None, "s"),
        lambda registry: registry.restore_session("m", "s", b"", [1]),
        lambda registry: registry.release_session("m", "s"),
        lambda registry: registry.watch_session(None, "s"),
    ]
    assert served.chat("s") == second.dies
    assert [served.went(call) for call in calls] == [second.dies] * 4
    assert served.chat("t") == first.dies


def test_a_new_session_goes_to_the_least_loaded_and_stays_there(served: _Served) -> None:
    """Two requests of a new id may come at once (agents do that): both to one instance."""
    first, second = served.made
    first.load = 1
    assert served.chat("s") == second.dies
    second.load = 9
    assert served.chat("s") == second.dies
    assert served.went(lambda registry: registry.release_session(None, "s")) == second.dies


def test_a_session_watched_before_it_exists_begins_where_it_is_watched(served: _Served) -> None:
    """Reference, `GET /session/watch`."""
    first, second = served.made
    first.load = 1
    assert served.went(lambda registry: registry.watch_session(None, "s")) == second.dies
    first.load, second.load = 0, 1
    assert served.chat("s") == second.dies


def test_a_session_that_nobody_knows_is_answered_by_the_first(served: _Served) -> None:
    served.made[0].load = 7
    assert served.went(lambda registry: registry.export_session(None, "s")) == (0,)
    assert served.went(lambda registry: registry.release_session(None, "s")) == (0,)


def test_an_unload_drains_and_closes_every_instance(served: _Served) -> None:
    """Reference, `POST /admin/models/unload`, and 404 afterwards."""
    served.load("b", (3,))
    served.made[0].close_fails = True
    with pytest.raises(UnloadFailed) as refused:
        served.registry.unload("m")
    assert refused.value.failure is UnloadFailure.OTHER, "one of them cannot be closed"
    assert [one.closed for one in served.made] == [True, True, False]
    assert all(isinstance(one.refusal, ModelNotFound) for one in served.made[:2])
    assert [row.id for row in served.registry.models()] == ["b"]
    with pytest.raises(UnloadFailed) as gone:
        served.registry.unload("m")
    assert gone.value.failure is UnloadFailure.NOT_LOADED


def test_an_unload_waits_for_what_runs_on_any_of_them() -> None:
    served = _Served(max_models=8, unload_drain_s=0.1)
    served.load("m", (0,))
    served.load("m", (1,))
    served.made[1].load = 1
    served.registry.unload("m")
    assert all(one.closed for one in served.made)
    with pytest.raises(NoModelsLoaded):
        served.registry.submit(CompletionRequest(model="m", messages=()))


def test_a_replica_whose_name_is_unloaded_while_it_loads_never_comes(served: _Served) -> None:
    """An unload leaves nothing of the name behind."""
    served.during = lambda: served.registry.unload("m")
    assert served.refused("m", (3,)) is LoadFailure.CONFLICT
    assert served.made[-1].closed
    served.during = lambda: None
    assert served.registry.models() == ()
