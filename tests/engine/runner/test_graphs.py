"""Decode steps as graphs, through a real runner and its step loop (reference, `graphs`): a capture
that fails "falls back to the direct kernel body and produces correct output"."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import pytest

from pantheon.engine.events import Failed
from pantheon.engine.programs import PrivateFolder, ProgramStore
from pantheon.engine.residency import ATTEMPTS, CapturedLayers, GraphCounts, SlotClass
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.runner.graphs import (
    CapturedProgram,
    CudaGraphs,
    Graphs,
    graphs_of,
    read_layers,
    written_layers,
)
from tests.engine.live_model import LiveModel, live_model
from tests.engine.model.forward import open_model
from tests.engine.runner.scripted_graphs import ScriptedGraphs
from tests.golden import golden_arrays, golden_file

_HYBRID = "qwen35"
_PROMPTS = golden_arrays(f"models/{_HYBRID}.npz")
_PROMPT, _EXPECTED = _PROMPTS["ids"].tolist(), _PROMPTS["greedy"].tolist()[:6]
_LAYERS = open_model(golden_file(f"models/{_HYBRID}-f32.gguf"))[1].recurrent
_EVERY = CapturedLayers(frozenset(range(len(_LAYERS))), whole=True)
_STATES, _ATTENTION = sum(_LAYERS), len(_LAYERS) - sum(_LAYERS)


@contextmanager
def _model(graphs: Graphs) -> Iterator[LiveModel]:
    path = golden_file(f"models/{_HYBRID}-f32.gguf")
    with live_model(path, checkpoints=4, graphs=graphs) as model:
        yield model


def _counts(model: LiveModel) -> GraphCounts:
    assert model.runner.graphs is not None
    return model.runner.graphs.status().counts


def _ask(model: LiveModel) -> list[int]:
    return model.ask(_PROMPT, limit=len(_EXPECTED)).tokens


def _of(**states: int) -> GraphCounts:
    counts = dict.fromkeys(("live", "failed", "ineligible", "pending", "gave_up"), 0) | states
    total = counts["live"] + counts["failed"] + counts["ineligible"] + counts["pending"]
    return GraphCounts(total=total, **counts)


def test_a_captured_step_answers_as_the_reference_and_its_layers_are_live() -> None:
    graphs = ScriptedGraphs(_EVERY)
    with _model(graphs) as model:
        assert _counts(model) == _of(), "nothing has run"
        assert _ask(model) == _EXPECTED
        assert graphs.replayed == len(_EXPECTED)
        assert _counts(model) == _of(live=len(_LAYERS))
        status = model.runner.graphs.status()
        assert status.classes == {
            SlotClass.BATCHED_ATTN: _of(live=_ATTENTION),
            SlotClass.BATCHED_SSM: _of(live=_STATES),
        }
        assert (status.captures, status.capture_failures) == (1, 0)


def test_a_layer_that_is_not_covered_is_ineligible() -> None:
    attention = frozenset(index for index, recurrent in enumerate(_LAYERS) if not recurrent)
    with _model(ScriptedGraphs(CapturedLayers(attention, whole=False))) as model:
        assert _ask(model) == _EXPECTED
        assert _counts(model) == _of(live=_ATTENTION, ineligible=_STATES)


def test_what_xla_does_not_tell_is_pending() -> None:
    graphs = ScriptedGraphs(None)
    with _model(graphs) as model:
        assert _ask(model) == _EXPECTED
        assert graphs.replayed == len(_EXPECTED)
        assert _counts(model) == _of(pending=len(_LAYERS))


@pytest.mark.parametrize("outcome", ["compile", "record"])
def test_a_failure_costs_no_token_and_heals(outcome: str, caplog: pytest.LogCaptureFixture) -> None:
    """Reference: "a transient `failed` on one read that is `live` on the next is the system
    self-healing"."""
    graphs = ScriptedGraphs(_EVERY, [outcome])
    with _model(graphs) as model:
        with caplog.at_level(logging.WARNING):
            assert _ask(model) == _EXPECTED
        assert "decode 8 runs without graphs" in caplog.text
        assert graphs.replayed == 0
        assert _counts(model) == _of(failed=len(_LAYERS))
        graphs.now += 1e3
        assert _ask(model) == _EXPECTED
        assert graphs.replayed == len(_EXPECTED)
        assert _counts(model) == _of(live=len(_LAYERS))
        assert model.runner.graphs.status().capture_failures == 1


@pytest.mark.parametrize("outcome", ["compile", "record"])
def test_it_gives_up_when_the_budget_is_spent(outcome: str) -> None:
    graphs = ScriptedGraphs(_EVERY, [outcome] * 100)
    with _model(graphs) as model:
        for _ in range(ATTEMPTS + 2):
            assert _ask(model) == _EXPECTED
            graphs.now += 1e6
        every = len(_LAYERS)
        assert _counts(model) == _of(failed=every, gave_up=every)
        assert model.runner.graphs.status().capture_failures == ATTEMPTS


def test_where_the_state_is_lost_the_requests_end_and_the_next_run_plainly() -> None:
    graphs = ScriptedGraphs(_EVERY, ["lose"])
    with _model(graphs) as model:
        assert isinstance(model.start(_PROMPT, limit=2).wait().events[-1], Failed)
        assert _ask(model) == _EXPECTED
        assert graphs.replayed == 0
        assert _counts(model) == _of(failed=len(_LAYERS))


def test_only_cuda_has_graphs() -> None:
    assert isinstance(graphs_of("cuda"), CudaGraphs)
    assert all(graphs_of(platform) is None for platform in ("cpu", "rocm", "metal", "tt"))
    with _live_without_graphs() as model:
        assert model.runner.graphs is None


@contextmanager
def _live_without_graphs() -> Iterator[LiveModel]:
    with live_model(golden_file("models/llama-smollm-f32.gguf")) as model:
        yield model


@pytest.mark.parametrize(
    "layers",
    [None, CapturedLayers(frozenset(), whole=False), CapturedLayers(frozenset({3, 1}), True)],
)
def test_what_a_later_start_reads_is_what_was_written(layers: CapturedLayers | None) -> None:
    assert read_layers(written_layers(layers)) == layers


@pytest.mark.parametrize(
    "data", [None, b"", b"\xff", b"[]", b'{"layers": [true], "whole": true}', b'{"layers": [1]}']
)
def test_anything_else_says_nothing(data: bytes | None) -> None:
    assert read_layers(data) is None


class _KeptGraphs(ScriptedGraphs):
    """Counts what it compiles, which can be kept."""

    compiled = 0

    def capture(self, lowered: jax.stages.Lowered) -> CapturedProgram:
        self.compiled += 1
        return CapturedProgram(lowered.compile(), _EVERY)


def test_a_later_start_knows_of_the_graphs_that_it_loads(tmp_path: Path) -> None:
    path = golden_file("quant/llama-smollm-Q8_0.gguf")
    counts = []
    for _ in range(2):
        store = ProgramStore(PrivateFolder.open(tmp_path / "programs"), "one machine")
        graphs = _KeptGraphs(_EVERY)
        architecture, config, parameters = open_model(path)
        capacity = Capacity(rows=1, pages=8, page_size=64, window=512)
        runner = Runner(architecture, config, parameters, capacity, batches=(1,), graphs=graphs)
        runner.compile(lambda message: None, store)
        step = runner._steps.captured["decode 1"]
        captured = step._capture()
        counts.append((graphs.compiled, captured.layers))
        runner.close()
    assert counts == [(1, _EVERY), (0, _EVERY)]
