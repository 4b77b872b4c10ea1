"""Counting slots (reference, `graphs` and the classes of the operator's row)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pantheon.engine.residency import (
    Backoff,
    CapturedLayers,
    CapturedStep,
    CaptureFailed,
    GraphCounts,
    GraphSlots,
    LayerKind,
    SlotClass,
)

_ATTENTION, _RECURRENT = LayerKind.ATTENTION, LayerKind.RECURRENT
_HYBRID = [_RECURRENT, _RECURRENT, _RECURRENT, _ATTENTION] * 10
_ALL = CapturedLayers(frozenset(range(40)), whole=True)


def _step(executable: Callable[..., Any] | None, attempts: int = 2) -> CapturedStep:
    def capture() -> Callable[..., Any]:
        if executable is None:
            raise CaptureFailed("no memory for a graph")
        return executable

    return CapturedStep("decode", lambda: 0, capture, Backoff(lambda: 0.0, attempts))


def _slots(*steps: CapturedStep, layers: CapturedLayers | None, batched: bool = True) -> GraphSlots:
    return GraphSlots(_HYBRID, steps, lambda executable: layers, batched=batched)


def _counts(live: int, failed: int, ineligible: int, pending: int, gave_up: int = 0) -> GraphCounts:
    total = live + failed + ineligible + pending
    return GraphCounts(live, total, failed, ineligible, pending, gave_up)


def test_what_never_ran_is_not_counted() -> None:
    """Reference: `total` counts only exercised slots; a class never exercised is omitted."""
    status = _slots(_step(lambda: 0), layers=_ALL).status()
    assert (status.counts, status.classes) == (_counts(0, 0, 0, 0), {})


def test_layers_in_command_buffers_are_live_by_class() -> None:
    step = _step(lambda: 0)
    step()
    status = _slots(step, layers=_ALL).status()
    assert status.counts == _counts(40, 0, 0, 0)
    assert status.classes == {
        SlotClass.BATCHED_ATTN: _counts(10, 0, 0, 0),
        SlotClass.BATCHED_SSM: _counts(30, 0, 0, 0),
    }
    assert (status.captures, status.capture_failures) == (1, 0)


def test_captures_of_steps_that_were_compiled_anew_count_too() -> None:
    """Reference: `captures` and `capture_failures` are of the model's life."""
    step = _step(lambda: 0)
    step()
    status = GraphSlots(_HYBRID, [step], lambda executable: _ALL, batched=True, earlier=(4, 2))
    assert (status.status().captures, status.status().capture_failures) == (5, 2)


def test_layers_outside_of_command_buffers_are_ineligible() -> None:
    """Reference: `ineligible` is gated out and no fault."""
    step = _step(lambda: 0)
    step()
    attention = frozenset(layer for layer, kind in enumerate(_HYBRID) if kind is _ATTENTION)
    status = _slots(step, layers=CapturedLayers(attention, whole=False)).status()
    assert status.classes[SlotClass.BATCHED_ATTN] == _counts(10, 0, 0, 0)
    assert status.classes[SlotClass.BATCHED_SSM] == _counts(0, 0, 30, 0)


def test_what_cannot_be_read_is_pending() -> None:
    step = _step(lambda: 0)
    step()
    assert _slots(step, layers=None).status().counts == _counts(0, 0, 0, 40)


@pytest.mark.parametrize(("attempts", "gave_up"), [(2, 0), (1, 40)])
def test_a_failed_capture_is_the_only_fault(attempts: int, gave_up: int) -> None:
    step = _step(None, attempts)
    step()
    status = _slots(step, layers=_ALL).status()
    assert status.counts == _counts(0, 40, 0, 0, gave_up)
    assert (status.captures, status.capture_failures) == (0, 1)


def test_one_step_without_graphs_is_not_hidden_by_another() -> None:
    works, fails = _step(lambda: 0), _step(None)
    works()
    slots = _slots(works, fails, layers=_ALL)
    assert slots.status().counts == _counts(40, 0, 0, 0)
    fails()
    assert slots.status().counts == _counts(0, 40, 0, 0)


@pytest.mark.parametrize("whole", [True, False])
def test_the_one_user_path_has_recurrent_layers_and_the_whole_step(whole: bool) -> None:
    """Reference: `single_ssm` is the one-user path a layer, `segment` the full-step graph."""
    step = _step(lambda: 0)
    step()
    layers = CapturedLayers(_ALL.layers, whole=whole)
    status = _slots(step, layers=layers, batched=False).status()
    assert status.classes[SlotClass.SINGLE_SSM] == _counts(30, 0, 0, 0)
    assert status.classes[SlotClass.SEGMENT] == _counts(int(whole), 0, int(not whole), 0)
    assert SlotClass.BATCHED_ATTN not in status.classes
