"""Logits by the operations for GPUs, interpreted, against transformers in float32
(tests/data/README.md, models and quant): that the model gives them what they expect."""

from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.model import Implementation
from tests.engine.model.forward import Model, open_model, run
from tests.golden import golden_arrays, golden_file

_GRID = 128


def _open(path: Path) -> Model:
    return open_model(path, implementation=Implementation.GPU_INTERPRETED)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("llama-mistral", 2e-4),
        ("qwen3", 2e-4),
        ("qwen3moe", 2e-4),
        ("qwen3next", 1e-3),
        ("qwen35", 1e-3),
    ],
)
def test_logits_of_chunks_with_padding_and_of_decoding(name: str, tolerance: float) -> None:
    """A sliding window, norms of heads, experts, states with and without shared experts."""
    golden = golden_arrays(f"models/{name}.npz")
    model = _open(golden_file(f"models/{name}-f32.gguf"))
    found = run(model, golden["ids"], [17, 28, 1, 1, 1], grid=_GRID)[0]
    np.testing.assert_allclose(found, golden["logits"], atol=tolerance, rtol=0)
