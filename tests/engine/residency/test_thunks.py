"""Reading what XLA planned to capture (xla/README.md says of what)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.residency import CapturedLayers, captured_layers
from pantheon.engine.residency.thunks import launches, layer_scope

_TEXTS = Path(__file__).parent / "xla"


def _text(name: str) -> str:
    return (_TEXTS / name).read_text("utf-8")


_SEQUENCE = _text("thunk_sequence.txt")
_METADATA = _text("thunk_metadata.txt")
_HLO = _text("optimised.hlo.txt")


def test_layers_below_the_command_buffer_are_captured_and_the_loop_is_not() -> None:
    found = captured_layers(_SEQUENCE, _METADATA, _HLO)
    assert found == CapturedLayers(frozenset({0, 1, 2, 3}), whole=False)


def test_a_step_without_the_loop_is_captured_whole() -> None:
    lines = _SEQUENCE.splitlines()
    straight = lines[: next(i for i, line in enumerate(lines) if "kWhile" in line)]
    found = captured_layers("\n".join(straight), _METADATA, _HLO)
    assert found == CapturedLayers(frozenset({0, 1, 2, 3}), whole=True)


def test_a_layer_with_one_launch_outside_is_not_captured() -> None:
    outside = _SEQUENCE.replace("    005: ", "005: ").replace("    006: ", "006: ")
    found = captured_layers(outside, _METADATA, _HLO)
    assert found is not None
    # What is less indented ends the command buffer: nothing after it is below it either.
    assert found.layers == frozenset({0, 1})


def test_a_step_without_command_buffers_has_no_layer_captured() -> None:
    lines = [line[4:] for line in _SEQUENCE.splitlines() if line.startswith("    0")]
    found = captured_layers("\n".join(lines), _METADATA, _HLO)
    assert found == CapturedLayers(frozenset(), whole=False)


@pytest.mark.parametrize("sequence", ["", "nothing that XLA writes"])
def test_texts_that_say_nothing_are_no_answer(sequence: str) -> None:
    assert captured_layers(sequence, _METADATA, _HLO) is None


def test_a_launch_outside_that_no_layer_can_be_told_of_is_no_answer() -> None:
    """Design: what cannot be read is pending, never a guess."""
    outside = _SEQUENCE.replace("    005: ", "005: ")
    name = next(
        line.split('"')[1]
        for line, following in pairwise(_METADATA.splitlines())
        if following.strip() == "thunk_id: 5"
    )
    nameless = "\n".join(
        line.replace("op_name=", "no_name=") if line.lstrip().startswith(f"%{name} ") else line
        for line in _HLO.splitlines()
    )
    assert nameless != _HLO
    assert captured_layers(outside, _METADATA, nameless) is None


def test_a_thunk_that_nothing_is_said_of_is_no_answer() -> None:
    assert captured_layers(_SEQUENCE, _METADATA.split("thunk_id: 7")[0], _HLO) is None


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_no_text_is_an_error(sequence: str, metadata: str, hlo: str) -> None:
    found = captured_layers(sequence, metadata, hlo)
    assert found is None or found.layers == frozenset()


def test_scopes_are_those_that_are_read() -> None:
    assert layer_scope(3) in _HLO


def test_what_xla_lists_below_a_slice_fusion_is_part_of_it() -> None:
    """Of a decode step of four rows of a hybrid, as XLA writes it: 035 has no metadata."""
    sequence = (
        "000: kCommandBuffer [source | next=037 (1)]\n"
        "    034: kDynamicSliceFusion [prev=033 (1) | next=036 (1)] params=2, results=1\n"
        "        035: kCustomCall [source | sink] kCustomCall\n"
        "    036: kCustomKernel [prev=034 (1) | next=037 (1)] add_rms_norm_row\n"
        "037: kDynamicSliceFusion [prev=000 (1) | sink] params=2, results=1\n"
        "    038: kCustomCall [source | sink] kCustomCall\n"
        "039: kCustomKernel [prev=037 (1) | sink] fusion\n"
    )
    assert dict(launches(sequence)) == {34: True, 36: True, 37: False, 39: False}
