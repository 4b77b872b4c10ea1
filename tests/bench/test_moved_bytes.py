"""Bytes of loads and stores in Triton's IR; the texts are in the form in which Triton 3.9 prints
its modules."""

import pytest

from bench.ahead_of_time.moved_bytes import UncountedMoves, moved_bytes

_HEAD = """
module {
  tt.func public @f(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("x"(#loc))) attributes {} {
    %cst = arith.constant dense<0.0> : tensor<128xf16> loc(#loc1)
    %c1_i32 = arith.constant 1 : i32 loc(#loc1)
    %c3_i32 = arith.constant 3 : i32 loc(#loc1)
    %sums.0-1 = arith.constant 8 : i32 loc(#loc2)
    %c0_i32 = arith.constant 0 : i32 loc(#loc1)
"""
_TAIL = """
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""
_LOOP = "%a = scf.for %i = %c0_i32 to %sums.0-1 step %c3_i32 iter_args(%b = %a) -> (f32)  : i32 {"
_OPEN_LOOP = "%a = scf.for %i = %c0_i32 to %n step %c1_i32 iter_args(%b = %a) -> (f32)  : i32 {"
_END = "} loc(#loc3)"
_LOAD = "%1 = tt.load %2, %3, %cst : tensor<4x32x!tt.ptr<f16>> loc(#loc4)"
_STORE = "tt.store %3, %7 evictionPolicy = evict_first : tensor<16x!tt.ptr<f32>> loc(#loc5)"
_SCALAR = "%8 = tt.load %n : !tt.ptr<i32> loc(#loc6)"
_BOOLEAN = "%8 = tt.load %n : tensor<8x!tt.ptr<i1>> loc(#loc6)"


def _bytes(*lines: str, programs: int = 1, trips: tuple[float, ...] = ()) -> int:
    return moved_bytes(_HEAD + "\n".join(lines) + _TAIL, programs, trips)


@pytest.mark.parametrize(
    ("line", "expected"), [(_LOAD, 256), (_STORE, 64), (_SCALAR, 4), (_BOOLEAN, 8), (_LOOP, 0)]
)
def test_one_operation_moves_its_elements(line: str, expected: int) -> None:
    assert _bytes(*([line, _END] if line == _LOOP else [line])) == expected


def test_every_program_of_the_grid_counts() -> None:
    assert _bytes(_SCALAR, _STORE, programs=7) == 7 * (4 + 64)


def test_a_loop_counts_as_often_as_it_runs() -> None:
    """0, 3 and 6, which nested loops multiply; what follows the loop runs once."""
    inner = (_LOOP, _LOAD, _END)
    assert _bytes(_LOOP, _SCALAR, *inner, _END, _STORE) == 3 * (4 + 3 * 256) + 64


def test_both_sides_of_a_condition_count() -> None:
    condition = ("%9 = scf.if %8 -> (f32) {", _LOAD, "} else {", _SCALAR, _END)
    assert _bytes(_LOOP, *condition, _END) == 3 * (256 + 4)


def test_regions_of_reductions_do_not_end_a_loop() -> None:
    reduction = (
        '%5 = "tt.reduce"(%4) <{axis = 0 : i32}> ({',
        "^bb0(%p: f32 loc(callsite(#loc1 at #loc25)), %q: f32 loc(#loc1)):",
        "tt.reduce.return %6 : f32 loc(#loc47)",
        "}) : (tensor<128xf32>) -> f32 loc(#loc47)",
    )
    assert _bytes(_LOOP, *reduction, _SCALAR, _END) == 3 * 4


def test_loops_that_the_device_bounds_take_their_trips_in_order() -> None:
    first, second = (_OPEN_LOOP, _SCALAR, _END), (_OPEN_LOOP, _STORE, _END)
    assert _bytes(*first, *second, trips=(2.5, 2), programs=2) == 2 * (10 + 128)


@pytest.mark.parametrize(
    ("lines", "trips"),
    [
        ((_OPEN_LOOP, _END), ()),
        (("scf.while (%a = %b) : (f32) -> f32 {", _END), ()),
        ((_LOOP, _END), (3.0,)),
        (("%1 = tt.atomic_rmw fadd, acq_rel, gpu, %2, %3 : (!tt.ptr<f32>, f32) -> f32",), ()),
        (("%1 = tt.descriptor_load %2[%3] : !tt.tensordesc<32x32xf16> -> f16",), ()),
    ],
)
def test_what_cannot_be_counted_is_refused(
    lines: tuple[str, ...], trips: tuple[float, ...]
) -> None:
    with pytest.raises(UncountedMoves):
        _bytes(*lines, trips=trips)
