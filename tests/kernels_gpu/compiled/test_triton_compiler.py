"""What is read from Triton's compiler and its assembler, on kernels whose needs are known."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from bench.ahead_of_time.triton import Launch, compiled_function


@triton.jit
def _copied(source, target, REPEATS: tl.constexpr):
    place = tl.program_id(0) * 128 + tl.arange(0, 128)
    for _ in range(REPEATS):
        tl.store(target + place, tl.load(source + place).to(tl.float32) + 1)


@triton.jit
def _held(source, target):
    """64 values a thread, all of which are needed twice."""
    place = tl.arange(0, 64 * 1024)
    values = tl.load(source + place)
    tl.store(target + place, values * tl.sum(values))


_COPIED_TYPES = {"source": "*fp16", "target": "*fp32"}


@pytest.mark.parametrize("capability", [80, 90])
def test_bytes_are_those_of_loads_and_stores_in_all_programs(capability: int) -> None:
    launch = Launch("copied", "", (4, 2), 4, 1, 1)
    found = compiled_function(launch, _copied, _COPIED_TYPES, {"REPEATS": 3}, capability)
    assert found.moved_bytes == 8 * 3 * 128 * (2 + 4)
    assert found.spilled_bytes == 0
    assert 0 < found.registers <= 255


def test_what_is_in_no_register_is_spilled() -> None:
    """512 values a thread do not fit into 255 registers."""
    launch = Launch("held", "", (1,), 4, 1, 1)
    found = compiled_function(launch, _held, {"source": "*fp32", "target": "*fp32"}, {}, 90)
    assert found.spilled_bytes >= (512 - 255) * 4


def test_sums_across_threads_take_shared_memory() -> None:
    launch = Launch("held", "", (1,), 8, 1, 1)
    found = compiled_function(launch, _held, {"source": "*fp32", "target": "*fp32"}, {}, 80)
    assert found.shared_bytes == 8 * 4
