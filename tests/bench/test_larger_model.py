"""Random models: their blocks as the package gguf reads them, and a small one as we read it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from bench.errors import BenchError
from bench.larger_model import QWEN3_0_6B, Shape, takes_six_bits, write_model
from bench.random_blocks import VALUES, q4_k, q6_k
from bench.reference_forward import ReferenceModel
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import architecture_of
from pantheon.engine.tokenizer import Tokenizer, Vocabulary
from tests.golden import golden_file

STD = 0.02
SMALL = Shape(
    layers=8,
    hidden=256,
    heads=2,
    kv_heads=1,
    head_dim=128,
    feed_forward=512,
    vocabulary=1200,
    context=512,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("larger") / "small.gguf"
    write_model(target, golden_file("models/llama-smollm-f32.gguf"), SMALL)
    return target


def test_blocks_of_q4_k_hold_weights_of_the_wanted_size() -> None:
    blocks = q4_k(np.random.default_rng(1), 400, STD)
    values = gguf.dequantize(blocks, Type.Q4_K)
    assert values.size == 400 * VALUES
    assert values.std() == pytest.approx(STD, rel=0.02)
    assert abs(values.mean()) < 0.02 * STD
    # Sixteen codes at equal distances around zero: every group has as many values.
    group = np.unique(values.reshape(-1, 32)[0])
    assert np.allclose(np.diff(group) / np.diff(group).min() % 1, 0, atol=1e-3)
    assert np.abs(values).max() <= STD * 2.5


def test_blocks_of_q6_k_hold_weights_of_the_wanted_size() -> None:
    values = gguf.dequantize(q6_k(np.random.default_rng(1), 400, STD), Type.Q6_K)
    assert values.size == 400 * VALUES
    assert values.std() == pytest.approx(STD, rel=0.02)
    assert abs(values.mean()) < 0.05 * STD


def test_half_of_the_layers_take_six_bits() -> None:
    """The first and the last eighth of 28 layers, and every third between."""
    layers = [layer for layer in range(28) if takes_six_bits(layer, 28)]
    assert layers == [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27]


def test_the_shape_has_the_weights_of_qwen3_0_6b() -> None:
    """596 million parameters, of which 440 million are not embeddings (its model card)."""
    shape = QWEN3_0_6B
    attention = 2 * shape.hidden * shape.head_dim * (shape.heads + shape.kv_heads)
    layer = attention + 3 * shape.hidden * shape.feed_forward
    assert round(shape.layers * layer / 1e6) == 440
    assert round((shape.layers * layer + shape.vocabulary * shape.hidden) / 1e6) == 596


def test_a_small_model_has_the_mix_of_types(small: Path) -> None:
    tensors = gguf.GGUFReader(small).tensors
    types = Counter(tensor.tensor_type for tensor in tensors if tensor.name.startswith("blk."))
    six = sum(takes_six_bits(layer, SMALL.layers) for layer in range(SMALL.layers))
    assert types[Type.Q6_K] == 2 * six
    assert types[Type.Q4_K] == 7 * SMALL.layers - 2 * six
    assert types[Type.F32] == 4 * SMALL.layers


def test_a_small_model_is_read_as_its_shape_says(small: Path) -> None:
    with GGUFFile(small) as file:
        config = architecture_of(file).read_config(file)
        tokenizer = Tokenizer(Vocabulary.from_metadata(file.metadata))
    assert (config.layers, config.kv_heads, config.head_dim) == (8, 1, 128)
    assert config.tokens == SMALL.vocabulary
    text = "A lens in front of a flame."
    tokens = tokenizer.encode(text, special=False)
    decoder = tokenizer.decoder()
    assert "".join(decoder.push(token) for token in tokens) == text


def test_the_scores_of_a_small_model_are_of_ordinary_size(small: Path) -> None:
    model = ReferenceModel(small)
    scores = model.logits(model.hidden_states(np.arange(20)))
    assert np.isfinite(scores).all()
    assert 0.1 < scores.std() < 10


def test_a_second_one_is_the_same_file(small: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "again.gguf", golden_file("models/llama-smollm-f32.gguf"), SMALL)
    assert (tmp_path / "again.gguf").read_bytes() == small.read_bytes()


def test_a_tokenizer_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="kind gpt2"):
        write_model(tmp_path / "x.gguf", golden_file("models/phi3-f32.gguf"), SMALL)
