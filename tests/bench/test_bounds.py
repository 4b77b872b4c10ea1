"""Bounds of made-up processors and models, whose right values are known, and real products."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.bounds import Bound, Work, bound_table, last_race, peak_rates
from bench.peaks import Peaks, measure_peaks
from bench.processor import processor_flags, read_cpuinfo, usable
from bench.products import NativeProducts, PlainProducts, Sizes, sizes_of
from tests.golden import golden_file

SIZES = Sizes(layers=900, head=100, bytes=500)


def test_products_are_as_fast_as_the_slower_of_memory_and_arithmetic() -> None:
    """500 bytes take 1 s to read; 4 rows are 4,000 products: 2 s in float32, 0.5 s in int16."""
    peaks = Peaks(threads=2, float32=2000.0, int16=8000.0, bytes=500.0)
    assert peak_rates(SIZES, Work("decode 4 rows", 4, 4, 3.0), peaks) == (2.0, 4.0, 4.0)


def test_a_prefill_has_the_head_of_one_row() -> None:
    assert SIZES.macs(512, 1) == 512 * 900 + 100


def test_the_last_race_over_the_model_is_found(tmp_path: Path) -> None:
    runs = [("a", 1.0), ("b", 2.0), ("a", 3.0)]
    lines = [
        json.dumps(
            {
                "models": [{"file": file}],
                "rows": [{"name": "decode 1 row", "pantheon": rate, "peer": 9.0}],
            }
        )
        for file, rate in runs
    ]
    (tmp_path / "race.jsonl").write_text("\n".join(lines) + "\n")
    assert last_race(tmp_path, "a") == {"decode 1 row": (3.0, 9.0)}
    assert last_race(tmp_path, "c") == {}
    assert last_race(tmp_path / "nothing", "a") == {}


def test_the_larger_model_of_a_race_has_rows_of_its_own(tmp_path: Path) -> None:
    rows = [
        {"name": name, "pantheon": rate, "peer": 9.0}
        for name, rate in (("decode 1 row", 1.0), ("larger: decode 1 row", 2.0))
    ]
    race = {"models": [{"file": "a"}, {"file": "b"}], "rows": rows}
    (tmp_path / "race.jsonl").write_text(json.dumps(race) + "\n")
    assert last_race(tmp_path, "a") == {"decode 1 row": (1.0, 9.0)}
    assert last_race(tmp_path, "b") == {"decode 1 row": (2.0, 9.0)}


def test_the_table_shows_how_much_of_kernels_and_steps_the_server_leaves() -> None:
    bound = Bound(Work("decode 1 row", 1, 1, 1.7), 90, 95, 100, 40, 80, 75, 150, 60)
    cells = bound_table([bound]).splitlines()[-1].split()
    assert cells == [
        "decode",
        "1",
        "row",
        "90.0",
        "95.0",
        "100.0",
        "40.0",
        "80.0",
        "75.0",
        "150.0",
        "60.0",
        "75%",
        "80%",
    ]


def test_the_sizes_are_those_of_the_matrices() -> None:
    """llama-smollm: 2 layers, hidden 256, 8 heads, 2 KV heads, tied (tests/data/README.md)."""
    model = golden_file("models/llama-smollm-f32.gguf")
    sizes = sizes_of(model)
    attention = 2 * 256 * 256 + 2 * 256 * 64
    assert (sizes.layers - 2 * attention) % (2 * 3 * 256) == 0
    assert sizes.head % 256 == 0
    assert sizes.bytes == 4 * (sizes.layers + sizes.head)


def test_products_of_a_small_model_take_some_time() -> None:
    model = golden_file("models/llama-smollm-f32.gguf")
    plain = PlainProducts(model)
    assert 0 < plain.seconds(1, 1) < plain.seconds(128, 1) < 10


@pytest.mark.skipif(NativeProducts.missing() is not None, reason="the native kernels are not built")
def test_native_products_grow_with_the_chunks() -> None:
    native = NativeProducts(golden_file("models/llama-smollm-f32.gguf"))
    assert 0 < native.seconds(128, 1) < native.seconds(512, 1) < 10


@pytest.mark.skipif(
    not {"AVX2", "FMA"} <= set(usable(processor_flags(read_cpuinfo()))),
    reason="the processor has no AVX2 and FMA",
)
def test_the_peaks_of_this_processor_are_those_of_a_computer(tmp_path: Path) -> None:
    for peaks in measure_peaks(tmp_path):
        assert 1e8 < peaks.float32 < 1e13
        assert 1e8 < peaks.int16 < 1e13
        assert 1e8 < peaks.bytes < 1e13
