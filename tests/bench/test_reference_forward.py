"""The reference forward pass against transformers' logits (tests/data/models)."""

from __future__ import annotations

import numpy as np
import pytest

from bench.errors import BenchError
from bench.reference_forward import ReferenceModel
from tests.golden import golden_arrays, golden_file

TOLERANCE = 2e-4
"""What tests/data/README.md recommends for two correct programs in float32."""


@pytest.mark.parametrize("name", ["llama-smollm", "qwen3", "llama-mistral"])
def test_logits_are_those_of_transformers(name: str) -> None:
    golden = golden_arrays(f"models/{name}.npz")
    model = ReferenceModel(golden_file(f"models/{name}-f32.gguf"))
    found = model.logits(model.hidden_states(golden["ids"]))
    np.testing.assert_allclose(found, golden["logits"], rtol=0, atol=TOLERANCE)


def test_a_long_prompt_has_transformers_choices() -> None:
    golden = golden_arrays("models/llama-smollm.npz")
    model = ReferenceModel(golden_file("models/llama-smollm-f32.gguf"))
    found = model.logits(model.hidden_states(golden["ids300"]))
    assert found.argmax(axis=1).tolist() == golden["argmax300"].tolist()


@pytest.mark.parametrize("name", ["phi3", "qwen3moe"])
def test_other_architectures_are_refused(name: str) -> None:
    with pytest.raises(BenchError, match=r"(llama or qwen3|knows no)"):
        ReferenceModel(golden_file(f"models/{name}-f32.gguf"))


def test_factors_of_rope_are_refused() -> None:
    with pytest.raises(BenchError, match="RoPE"):
        ReferenceModel(golden_file("models/llama3-rope-f32.gguf"))
