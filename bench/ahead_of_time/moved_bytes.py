"""Bytes that a kernel's loads and stores ask for, counted in its Triton IR.

The IR is that of Triton's dialect after its optimisations, where a tensor's load is one operation
of known shape, and a loop's bounds are constants or values that only the device knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

_NAME: Final = r"%[\w.$-]+"
_CONSTANT: Final = re.compile(rf"({_NAME}) = arith\.constant (-?\d+) : \w+")
_LOOP: Final = re.compile(rf"\bscf\.for {_NAME} = ({_NAME}) to ({_NAME}) step ({_NAME})")
_MOVE: Final = re.compile(r"\btt\.(?:load|store)\b.* : (.*)")
_OTHER_MOVES: Final = re.compile(r"\btt\.(?:atomic_\w+|descriptor_\w+|call|gather)\b")
_POINTERS: Final = re.compile(r"(?:tensor<((?:\d+x)+))?!tt\.ptr<([a-z]+)(\d+)\w*>")


class UncountedMoves(ValueError):
    """The IR has something whose bytes are not known."""


def moved_bytes(ir: str, programs: int, trips: Sequence[float] = ()) -> int:
    """Bytes of all loads and stores of the grid, those that a mask leaves out among them.

    Both sides of a condition count.

    Args:
        ir: the text of one function in Triton's dialect.
        programs: of the grid.
        trips: how often each loop without constant bounds runs, on average over the grid, in the
            order of the text.

    Raises:
        UncountedMoves: operations that move bytes in other ways, or not as many `trips` as such
            loops.
    """
    constants = {name: int(value) for name, value in _CONSTANT.findall(ir)}
    left = list(trips)
    # How often what stands inside each region runs; one for what stands outside of all.
    times = [1.0]
    total = 0.0
    for line in ir.splitlines():
        line = line.split(" loc(")[0].strip()
        if line.startswith("#"):
            continue
        if line.startswith("}"):
            times.pop()
        if other := _OTHER_MOVES.search(line):
            raise UncountedMoves(f"expected loads and stores of tensors alone, got {other[0]}")
        if move := _MOVE.search(line):
            total += times[-1] * _bytes_of(move[1])
        if "tt.func" in line or line.endswith("{"):
            times.append(times[-1] * _runs(line, constants, left))
    if left:
        raise UncountedMoves(f"expected {len(trips) - len(left)} trips, got {tuple(trips)}")
    return round(total * programs)


def _runs(line: str, constants: dict[str, int], trips: list[float]) -> float:
    """How often the region that begins in this line runs when what is around it runs once."""
    loop = _LOOP.search(line)
    if loop is None and "scf.while" not in line:
        return 1
    bounds = [constants.get(name) for name in loop.groups()] if loop else [None]
    if None not in bounds:
        start, stop, step = (bound for bound in bounds if bound is not None)
        return max(0, math.ceil((stop - start) / step))
    if not trips:
        raise UncountedMoves(f"expected trips for every loop without constant bounds: {line}")
    return trips.pop(0)


def _bytes_of(pointers: str) -> int:
    """Bytes behind a pointer or a tensor of pointers, of their type in the IR."""
    found = _POINTERS.match(pointers)
    if found is None:
        raise UncountedMoves(f"expected pointers, got {pointers}")
    sizes, _, bits = found.groups()
    # A boolean has one bit in the IR and a byte in memory.
    return (
        math.prod(int(size) for size in (sizes or "").split("x") if size) * max(int(bits), 8) // 8
    )
