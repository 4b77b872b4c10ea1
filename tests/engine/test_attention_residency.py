"""Attention layers whose pages do not fit on the die (reference, `attention`).

The die is a CPU device, whose JAX has host memory of its own kind as that of a GPU has: pages that
are there really are, and come to the die inside every step.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import msgspec
import pytest

from pantheon.engine import AttentionStatus, PlatformStatus, placing
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import GenerationFailed
from pantheon.engine.events import Failed, Finished
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance
from pantheon.engine.model import ModelConfig
from pantheon.engine.model.kv_cache import LayerCache
from pantheon.engine.requests import CompletionRequest, Sampling
from pantheon.engine.residency import AttentionLayers, PagesNotAllocated
from pantheon.engine.runner import AttentionPages, Capacity
from pantheon.engine.runner.attention_pages import DeviceMemory
from pantheon.engine.runner.step_programs import StepPrograms
from pantheon.handlers.status import instance_list, model_list
from tests.golden import golden_file

pytestmark = pytest.mark.timeout(300)

_LAYERS = 3
_WAIT_S = 60.0
_FILE = golden_file("models/llama-minicpm5-f32.gguf")
_CONFIG = EngineConfig(models=(), backend="cuda", build="unknown", native=False)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class _Die:
    """The memory of a device, of which some layers get none as long as a test says so."""

    def __init__(self, memory: DeviceMemory, refused: Sequence[int]) -> None:
        self.refused = set(refused)
        self._memory = memory

    def on_die(self, layer: int, held: LayerCache | None) -> LayerCache:
        if layer in self.refused:
            raise PagesNotAllocated("the test gives no room")
        return self._memory.on_die(layer, held)

    def on_host(self) -> LayerCache:
        return self._memory.on_host()


@dataclass
class _Loaded:
    """A model that was loaded onto such a die."""

    model: ModelInstance
    die: _Die
    clock: _Clock

    @property
    def attention(self) -> AttentionStatus:
        status = self.model.status().attention
        assert status is not None
        return status

    def ask(self, text: str, session: str | None = None) -> tuple[str, Finished]:
        """A greedy answer of 12 tokens."""
        return _ask(self.model, text, session)

    def pass_time(self, seconds: float) -> AttentionStatus:
        """Let time pass; what the engine thread has made of it while nothing ran."""
        self.clock.now += seconds
        self.model._loop.perform(iter([None]))
        return self.attention


def _ask(model: ModelInstance, text: str, session: str | None) -> tuple[str, Finished]:
    request = CompletionRequest(
        None,
        ({"role": "user", "content": text},),
        sampling=Sampling(temperature=0),
        session_id=session,
        max_tokens=12,
    )
    completion = model.submit(request)
    assert completion.wait_admitted(_WAIT_S)
    answer = ""
    while True:
        event = completion.next_event(_WAIT_S)
        assert event is not None and not isinstance(event, Failed), event
        answer += getattr(event, "text", "")
        if isinstance(event, Finished):
            return answer, event


@contextmanager
def _loaded(
    monkeypatch: pytest.MonkeyPatch, refused: Sequence[int] = (), layers_that_fit: int = 99
) -> Iterator[_Loaded]:
    """Load a model of three layers as a build with flash kernels does.

    Args:
        refused: layers that find no room at first.
        layers_that_fit: how many layers' pages the die holds at all.
    """
    clock, dies = _Clock(), list[_Die]()

    def pages(
        config: ModelConfig, capacity: Capacity, layout: jax.sharding.Sharding, budget: int
    ) -> AttentionPages:
        layer = capacity.pages * capacity.page_size * config.kv_bytes_per_token // _LAYERS
        memory = DeviceMemory(
            (capacity.pages, config.kv_heads, capacity.page_size, config.head_dim),
            jax.numpy.dtype(config.kv_dtype),
            layout,
            layers_that_fit * layer,
        )
        dies.append(_Die(memory, refused))
        layers = AttentionLayers(config.attention_layers, flash=True, clock=clock)
        return AttentionPages(layers, dies[0])

    monkeypatch.setattr(placing, "attention_pages", pages)
    options = ModelOptions(_FILE, name="tiny", ctx_cap=256, max_sessions=2)
    model = load_instance(options, _CONFIG)
    try:
        yield _Loaded(model, dies[0], clock)
    finally:
        model.close()


@pytest.fixture(scope="module")
def expected() -> tuple[str, str]:
    """The answers of the same model where nothing is anywhere but in its usual place."""
    options = ModelOptions(_FILE, name="tiny", ctx_cap=256, max_sessions=2)
    model = load_instance(options, _CONFIG)
    try:
        return _ask(model, "Hello", None)[0], _ask(model, "Bye", None)[0]
    finally:
        model.close()


def _row(model: ModelInstance) -> dict[str, Any]:
    (row,) = json.loads(msgspec.json.encode(instance_list([model.status()])))["data"]
    attention: dict[str, Any] = row["attention"]
    return attention


def test_attention_is_omitted_until_a_step_has_reached_it(
    monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]
) -> None:
    """Reference, `/v1/models`: omitted until the forward has reached an attention layer."""
    with _loaded(monkeypatch) as loaded:
        assert loaded.model.status().attention is None
        assert loaded.ask("Hello")[0] == expected[0]
        assert loaded.attention == AttentionStatus(ondie=3, host=0, total=3)


def test_layers_without_room_run_over_host_memory_with_equal_tokens_and_come_back(
    monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Reference: the fallback returns the same tokens; a failed allocation is retried."""
    with _loaded(monkeypatch, refused=(1, 2)) as loaded:
        (line,) = (record for record in caplog.records if record.levelname == "WARNING")
        assert "2 OF 3 ATTENTION LAYERS ARE IN HOST MEMORY" in line.message
        on_host = loaded.model.status().vram_bytes
        assert loaded.ask("Hello", "s")[0] == expected[0]
        assert _row(loaded.model) == {
            "ondie": 1,
            "host": 2,
            "total": 3,
            "gave_up": 0,
            "impossible": 0,
            "host_engagements": 2,
            "ring_alloc_failures": 2,
            "reasons": {"ring_alloc_failed": 2},
        }
        loaded.die.refused = {2}
        status = loaded.pass_time(1)
        assert (status.ondie, status.host, status.ring_alloc_failures) == (2, 1, 3)
        assert loaded.pass_time(3) == status, "the next attempt is due after four seconds"
        loaded.die.refused = set()
        loaded.pass_time(1)
        assert _row(loaded.model) == {
            "ondie": 3,
            "host": 0,
            "total": 3,
            "gave_up": 0,
            "impossible": 0,
            "host_engagements": 2,
            "ring_alloc_failures": 3,
        }
        answer, end = loaded.ask("Hello", "s")
        assert answer == expected[0]
        assert end.usage.cached_tokens > 0, "what the session held came along"
        assert loaded.ask("Bye")[0] == expected[1]
        assert loaded.model.status().vram_bytes > on_host


def test_steps_that_cannot_be_compiled_when_pages_came_are_compiled_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]
) -> None:
    """Pages that come back are to make a model faster: failing at that must not end it."""
    with _loaded(monkeypatch, refused=(1,)) as loaded:
        assert loaded.ask("Hello")[0] == expected[0]
        compile_steps, failures = StepPrograms.compile, [MemoryError("the test has none")]

        def compile_later(programs: StepPrograms, *arguments: Any) -> None:
            if failures:
                raise failures.pop()
            compile_steps(programs, *arguments)

        monkeypatch.setattr(StepPrograms, "compile", compile_later)
        loaded.die.refused = set()
        loaded.clock.now += 1
        with pytest.raises(GenerationFailed, match="a step failed beside it"):
            loaded.model._loop.perform(iter([None]))
        assert loaded.ask("Hello")[0] == expected[0]
        assert loaded.ask("Bye")[0] == expected[1]
        assert (loaded.attention.ondie, failures) == (3, [])


def test_attempts_end_and_are_told_of(
    monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]
) -> None:
    """Reference: `gave_up` is the number that should page someone."""
    with _loaded(monkeypatch, refused=(0,)) as loaded:
        assert loaded.ask("Hello")[0] == expected[0]
        for failures, wait in enumerate((1, 4, 16, 64), start=2):
            assert loaded.pass_time(wait).ring_alloc_failures == failures
        loaded.die.refused = set()
        loaded.pass_time(1e6)
        assert loaded.ask("Bye")[0] == expected[1]
        status = loaded.attention
        assert (status.host, status.gave_up, status.impossible) == (1, 1, 0)
        assert (status.host_engagements, status.ring_alloc_failures) == (1, 5)
        (row,) = model_list(
            PlatformStatus("cuda", "unknown", True, 1), [loaded.model.status()]
        ).data
        assert msgspec.to_builtins(row.attention) == {
            "ondie": 2,
            "host": 1,
            "total": 3,
            "gave_up": 1,
        }


def test_pages_that_a_die_can_never_hold_are_impossible(
    monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]
) -> None:
    """Reference: `impossible`, the rings cannot fit this die at all."""
    with _loaded(monkeypatch, layers_that_fit=1) as loaded:
        assert loaded.ask("Hello")[0] == expected[0]
        loaded.pass_time(1e6)
        assert loaded.ask("Bye")[0] == expected[1]
        status = loaded.attention
        assert (status.ondie, status.host, status.gave_up, status.impossible) == (1, 2, 2, 2)
        assert status.reasons == {"ring_alloc_failed": 2}
        assert status.ring_alloc_failures == 2


def test_pages_lost_with_a_failed_step_may_have_to_go_to_the_host(
    monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]
) -> None:
    """A step that fails leaves its arrays undefined: those made anew may find no room."""
    with _loaded(monkeypatch) as loaded:
        runner = loaded.model._runner
        loaded.ask("Hello")
        loaded.die.refused = {0, 1, 2}

        def fail(*arguments: object) -> None:
            raise RuntimeError("the device fell over")

        with monkeypatch.context() as broken:
            broken.setattr(runner, "decode", fail)
            with pytest.raises(AssertionError, match="Failed"):
                loaded.ask("Hello")
        assert loaded.ask("Hello")[0] == expected[0]
        assert (loaded.attention.ondie, loaded.attention.host_engagements) == (0, 3)


def test_nothing_is_left_of_pages_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    def held() -> int:
        """Bytes of pages, which alone have four dimensions."""
        gc.collect()
        arrays = (array for array in jax.live_arrays() if array.ndim == 4)
        return sum(array.nbytes for array in arrays if not array.is_deleted())

    before = held()
    with _loaded(monkeypatch, refused=(0, 1, 2)) as loaded:
        loaded.ask("Hello")
        while_on_host = held()
        loaded.die.refused = set()
        assert loaded.pass_time(1).host == 0
        loaded.ask("Hello")
        assert held() == while_on_host
    assert held() == before
