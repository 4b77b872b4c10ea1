"""Logits against transformers in float32 (tests/data/README.md, models and quant)."""

import numpy as np
import pytest

from tests.engine.model.forward import all_logits
from tests.golden import DATA, golden_arrays, golden_file

_TOLERANCE = 2e-4
"""Largest absolute difference, as the reference data recommends for this architecture."""

_MODELS = ["llama-smollm", "llama3-rope", "llama-minicpm5", "llama-mistral"]
_QUANTISED = sorted(path.stem for path in (DATA / "quant").glob("llama-*.npz"))


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("chunks", [[48], [17, 30, 1]], ids=["one chunk", "chunks and a decode"])
def test_logits_of_every_position(name: str, chunks: list[int]) -> None:
    golden = golden_arrays(f"models/{name}.npz")
    found = all_logits(golden_file(f"models/{name}-f32.gguf"), golden["ids"], chunks)
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", _MODELS)
def test_one_token_alone(name: str) -> None:
    golden = golden_arrays(f"models/{name}.npz")
    found = all_logits(golden_file(f"models/{name}-f32.gguf"), golden["ids1"], [1])
    np.testing.assert_allclose(found, golden["logits1"], atol=_TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", _MODELS)
def test_a_long_prompt_in_uneven_chunks(name: str) -> None:
    """300 tokens; llama3-rope needs its frequency factors here."""
    golden = golden_arrays(f"models/{name}.npz")
    chunks = [129, 100, 70, 1]
    found = all_logits(golden_file(f"models/{name}-f32.gguf"), golden["ids300"], chunks)
    np.testing.assert_allclose(found[-1], golden["logits300_last"], atol=_TOLERANCE, rtol=0)
    np.testing.assert_array_equal(found.argmax(axis=1), golden["argmax300"])


@pytest.mark.parametrize("name", _QUANTISED)
def test_logits_of_quantised_files(name: str) -> None:
    golden = golden_arrays(f"quant/{name}.npz")
    found = all_logits(golden_file(f"quant/{name}.gguf"), golden["ids"], [48])
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCE, rtol=0)


def test_the_undamaged_control_file() -> None:
    golden = golden_arrays("broken/ok.npz")
    found = all_logits(golden_file("broken/ok.gguf"), golden["ids"], [16])
    np.testing.assert_allclose(found, golden["logits"], atol=_TOLERANCE, rtol=0)
