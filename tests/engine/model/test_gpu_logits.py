"""Logits by the operations for GPUs, interpreted, against transformers in float32
(tests/data/README.md, models and quant): that the model gives them what they expect."""

from pathlib import Path

import jax
import numpy as np
import pytest

from pantheon.engine.model import Implementation
from pantheon.engine.model.packed import PackedMatrix, RawMatrix
from pantheon.engine.precision import Precision
from tests.engine.model.forward import Model, open_model, run
from tests.golden import golden_arrays, golden_file

pytestmark = pytest.mark.long

_GRID = 128


def _open(path: Path) -> Model:
    return open_model(path, implementation=Implementation.GPU_INTERPRETED)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("llama-mistral", 2e-4),
        ("qwen3moe", 2e-4),
        ("qwen35", 1e-3),
    ],
)
def test_logits_of_chunks_with_padding_and_of_decoding(name: str, tolerance: float) -> None:
    """A sliding window, experts with norms of heads, states of delta nets."""
    golden = golden_arrays(f"models/{name}.npz")
    model = _open(golden_file(f"models/{name}-f32.gguf"))
    found = run(model, golden["ids"], [17, 28, 1, 1, 1], grid=_GRID)[0]
    np.testing.assert_allclose(found, golden["logits"], atol=tolerance, rtol=0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("llama-smollm-Q4_K_M", {"Q4_K", "Q6_K"}),
        ("llama-minicpm5-BF16", set()),
        ("qwen35moe-q-Q4_K_M", {"Q4_K", "Q6_K"}),
    ],
)
def test_logits_of_files_whose_blocks_stay_as_they_are(name: str, raw: set[str]) -> None:
    """Embeddings, matrices and stacks of experts; those of other types are plain."""
    golden = golden_arrays(f"quant/{name}.npz")
    model = _open(golden_file(f"quant/{name}.gguf"))
    found = run(model, golden["ids"], [45, 1, 1, 1], grid=_GRID)[0]
    np.testing.assert_allclose(found, golden["logits"], atol=2e-4, rtol=0)
    held = jax.tree.leaves(model[2], is_leaf=lambda leaf: isinstance(leaf, PackedMatrix))
    kept = {leaf.type.name for leaf in held if isinstance(leaf, RawMatrix)}
    assert kept >= raw if raw else not kept
    assert all(leaf.precision is Precision.FLOAT32 for leaf in held if isinstance(leaf, RawMatrix))
