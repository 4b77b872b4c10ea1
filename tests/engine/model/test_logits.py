"""Logits against transformers in float32 (tests/data/README.md, models and quant)."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.engine.model.forward import all_logits, open_model, run
from tests.engine.model.rewritten import rewritten
from tests.golden import DATA, golden_arrays, golden_file

_TOLERANCES = {
    "llama-smollm": 2e-4,
    "llama3-rope": 2e-4,
    "llama-minicpm5": 2e-4,
    "llama-mistral": 2e-4,
    "phi3": 2e-4,
    "qwen2": 2e-4,
    "qwen3": 2e-4,
    "qwen3moe": 2e-4,
    "qwen3next": 1e-3,
    "qwen35": 1e-3,
    "qwen35moe": 1e-3,
}
"""Largest absolute difference, as the reference data recommends for each architecture."""

_QUANTISED = sorted(path.stem for path in (DATA / "quant").glob("*.npz"))
_GRID = 128


def test_every_model_of_the_reference_data_is_here() -> None:
    files = {path.stem.removesuffix("-f32") for path in (DATA / "models").glob("*.gguf")}
    assert files == {*_TOLERANCES, "qwen35-mtp"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _TOLERANCES)
def test_logits_and_hidden_states_of_every_position(name: str) -> None:
    """Hidden states to 1e-3 of the largest, as the reference data recommends."""
    golden = golden_arrays(f"models/{name}.npz")
    model = open_model(golden_file(f"models/{name}-f32.gguf"))
    found, hidden, _ = run(model, golden["ids"], [48])
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCES[name], rtol=0)
    expected = golden["hidden"][-1]
    np.testing.assert_allclose(hidden, expected, atol=1e-3 * np.abs(expected).max(), rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["llama-smollm", "phi3", "qwen3next"])
def test_logits_without_the_native_kernels(name: str) -> None:
    """Fused matrices among them, and one whose rows are dealt out to two."""
    golden = golden_arrays(f"models/{name}.npz")
    model = open_model(golden_file(f"models/{name}-f32.gguf"), native=False)
    found = run(model, golden["ids"], [48])[0]
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCES[name], rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _TOLERANCES)
def test_logits_in_chunks_and_by_decoding(name: str) -> None:
    golden = golden_arrays(f"models/{name}.npz")
    path = golden_file(f"models/{name}-f32.gguf")
    found = all_logits(path, golden["ids"], [17, 28, 1, 1, 1], grid=_GRID)
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCES[name], rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _TOLERANCES)
def test_one_token_alone(name: str) -> None:
    golden = golden_arrays(f"models/{name}.npz")
    found = all_logits(golden_file(f"models/{name}-f32.gguf"), golden["ids1"], [1])
    np.testing.assert_allclose(found, golden["logits1"], atol=_TOLERANCES[name], rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _TOLERANCES)
def test_a_long_prompt_on_the_grid_of_the_server(name: str) -> None:
    """300 tokens; llama3-rope needs its frequency factors here. The cuts leave padding before and
    after the tokens of a step."""
    golden = golden_arrays(f"models/{name}.npz")
    chunks = [100, 28, 64, 64, 43, 1]
    path = golden_file(f"models/{name}-f32.gguf")
    found = all_logits(path, golden["ids300"], chunks, grid=_GRID)
    np.testing.assert_allclose(found[-1], golden["logits300_last"], atol=_TOLERANCES[name], rtol=0)
    np.testing.assert_array_equal(found.argmax(axis=1), golden["argmax300"])
    if "logits300" in golden:
        np.testing.assert_allclose(found, golden["logits300"], atol=_TOLERANCES[name], rtol=0)


@pytest.mark.timeout(300)
def test_blocks_that_predict_further_tokens_are_left_alone() -> None:
    """qwen35-mtp is qwen35 with one such block: `nextn_predict_layers`."""
    golden = golden_arrays("models/qwen35.npz")
    found = all_logits(golden_file("models/qwen35-mtp-f32.gguf"), golden["ids"], [48])
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCES["qwen35"], rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _QUANTISED)
def test_logits_of_quantised_files(name: str) -> None:
    golden = golden_arrays(f"quant/{name}.npz")
    found = all_logits(golden_file(f"quant/{name}.gguf"), golden["ids"], [48])
    np.testing.assert_allclose(found, golden["logits"], atol=2e-4, rtol=0)


def test_the_undamaged_control_file() -> None:
    golden = golden_arrays("broken/ok.npz")
    found = all_logits(golden_file("broken/ok.gguf"), golden["ids"], [16])
    np.testing.assert_allclose(found, golden["logits"], atol=2e-4, rtol=0)


@pytest.mark.timeout(300)
def test_experts_whose_gate_and_up_are_one_tensor(tmp_path: Path) -> None:
    """As newer converters may write them: the rows of the gate first."""
    source = golden_file("models/qwen35moe-f32.gguf")
    held = {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(source).tensors}
    changed: dict[str, NDArray[np.float32] | None] = {}
    for index in range(8):
        gate, up = (f"blk.{index}.ffn_{part}_exps.weight" for part in ("gate", "up"))
        fused = np.concatenate([held[gate], held[up]], axis=1)
        changed |= {gate: None, up: None, f"blk.{index}.ffn_gate_up_exps.weight": fused}
    path = rewritten(source, tmp_path / "fused.gguf", tensors=changed)
    golden = golden_arrays("models/qwen35moe.npz")
    found = all_logits(path, golden["ids"], [48])
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCES["qwen35moe"], rtol=0)
