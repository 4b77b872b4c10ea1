"""What an instance says of its graphs, and the operator's row of it (reference, `graphs` and
`GET /admin/models`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pantheon.engine import loading
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.events import Failed, Finished, TextDelta
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance
from pantheon.engine.requests import CompletionRequest, Sampling
from pantheon.engine.residency import CapturedLayers, GraphCounts, SlotClass
from pantheon.handlers.status import instance_row
from tests.engine.runner.scripted_graphs import ScriptedGraphs
from tests.golden import golden_file

_WAIT_S = 60.0
_FILE = golden_file("models/llama-smollm-f32.gguf")


def _loaded(*, batch_slots: bool = True) -> ModelInstance:
    config = EngineConfig(models=(), backend="cpu", build="test", batch_slots=batch_slots)
    return load_instance(ModelOptions(_FILE, name="tiny", max_concurrent=1), config)


def _ask(model: ModelInstance) -> str:
    message = {"role": "user", "content": "spell the"}
    request = CompletionRequest(None, (message,), max_tokens=4, sampling=Sampling(temperature=0))
    completion = model.submit(request)
    assert completion.wait_admitted(_WAIT_S)
    text = ""
    while True:
        event = completion.next_event(_WAIT_S)
        assert event is not None and not isinstance(event, Failed)
        if isinstance(event, TextDelta):
            text += event.text
        if isinstance(event, Finished):
            return text


def _layers(model: ModelInstance) -> int:
    attention = model.status().attention
    assert attention is not None
    return attention.total


def test_a_model_on_the_host_has_no_graphs_and_its_row_no_object() -> None:
    model = _loaded()
    try:
        assert model.status().graphs is None
        assert "graphs" not in _row(model)
    finally:
        model.close()


def test_a_failure_is_seen_in_the_row_and_costs_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _loaded()
    expected = _ask(model)
    layers = _layers(model)
    model.close()
    graphs = ScriptedGraphs(CapturedLayers(frozenset(range(layers)), whole=True), ["record"])
    monkeypatch.setattr(loading, "graphs_of", lambda platform: graphs)
    model = _loaded()
    try:
        assert _row(model)["graphs"]["total"] == 0, "nothing has run"
        assert _ask(model) == expected
        failed = _row(model)["graphs"]
        assert (failed["failed"], failed["capture_failures"], failed["live"]) == (layers, 1, 0)
        graphs.now += 1e3
        assert _ask(model) == expected
        live = _row(model)["graphs"]
        assert (live["failed"], live["captures"], live["live"]) == (0, 1, layers)
        assert live["batched_attn"]["live"] == live["total"] == layers
        assert "segment" not in live
    finally:
        model.close()


def test_the_one_user_path_is_a_graph_of_the_whole_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """QWEN35_BATCH_SLOTS=0."""
    graphs = ScriptedGraphs(CapturedLayers(frozenset(), whole=True))
    monkeypatch.setattr(loading, "graphs_of", lambda platform: graphs)
    model = _loaded(batch_slots=False)
    try:
        _ask(model)
        status = model.status().graphs
        assert status is not None
        assert status.classes == {SlotClass.SEGMENT: GraphCounts(1, 1, 0, 0, 0, 0)}
    finally:
        model.close()


def _row(model: ModelInstance) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(instance_row(model.status()))
    return found
