"""The table of steps that were compiled for an H200 and did not run."""

from dataclasses import replace

from bench.ahead_of_time.compiled_steps import PREFILL, WholeStep, faults, steps_table

_STEP = WholeStep(
    model="a model",
    kind="dense",
    step="decode 8",
    dies=1,
    layers=4,
    of_layers=36,
    argument_bytes=140_000_000_000,
    temporary_bytes=900_000_000,
    result_bytes=100_000_000,
    inside=80,
    outside=0,
    layers_captured=4,
    whole=True,
    seconds=61.2,
)


def test_a_step_fits_into_the_memory_of_an_h200() -> None:
    """141 GB by NVIDIA's data sheet: arguments, results and what is needed meanwhile."""
    assert _STEP.fits
    assert faults([_STEP]) == []
    larger = replace(_STEP, temporary_bytes=900_000_001)
    assert not larger.fits
    assert faults([larger]) == ["a model, decode 8: does not fit into 141000000000 bytes"]


def test_every_layer_of_a_decode_step_is_a_graph() -> None:
    assert faults([replace(_STEP, layers_captured=3)]) == [
        "a model, decode 8: 3 of 4 layers are graphs"
    ]
    assert faults([replace(_STEP, layers_captured=None)]) != []
    assert faults([replace(_STEP, step=PREFILL, layers_captured=0, outside=9, whole=False)]) == []


def test_a_decode_step_is_a_graph_whole() -> None:
    outside = replace(_STEP, outside=2, whole=False)
    assert faults([outside]) == ["a model, decode 8: 2 launches are outside of graphs"]
    assert faults([replace(outside, dies=2)]) == [
        "a model, decode 8 over 2 dies: 2 launches are outside of graphs"
    ]


def test_the_table_says_how_many_layers_were_compiled() -> None:
    row = steps_table([_STEP]).splitlines()[-1]
    assert "4 of 36" in row and "140.00" in row and "900.0" in row and row.endswith("61")
