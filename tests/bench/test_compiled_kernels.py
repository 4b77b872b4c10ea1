"""The table of kernels that were compiled and did not run."""

from dataclasses import replace

from bench.ahead_of_time.compiled import CompiledKernel, compiled_table, spilling

_KERNEL = CompiledKernel("product", "one row", 90, 64, 0, 1024, 7_200_000, 4_800_000, 1.234)


def test_the_roof_is_the_memory_of_an_h200() -> None:
    """4.8 TB/s by NVIDIA's data sheet: 4.8 MB take a microsecond."""
    assert _KERNEL.least_microseconds == 1
    assert _KERNEL.record()["least_microseconds"] == 1


def test_the_table_sets_what_is_moved_beside_the_least() -> None:
    cells = compiled_table([_KERNEL]).splitlines()[-1].split()
    assert cells[-5:] == ["7.200", "4.800", "1.50", "1.00", "1.2"]


def test_those_that_spill_are_named() -> None:
    spilled = replace(_KERNEL, capability=80, spilled_bytes=16)
    assert spilling([_KERNEL, spilled]) == ["product, one row, sm_80: 16 bytes"]
