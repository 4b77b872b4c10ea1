"""Scaled rotary embeddings and sliding windows (tests/data/README.md, rope_variants)."""

from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model import architecture_of
from pantheon.engine.model.config import Pairing, RopeConfig, YarnScaling
from pantheon.engine.model.frequencies import frequencies
from tests.engine.model.forward import open_model, run
from tests.engine.model.rewritten import Value, rewritten
from tests.golden import golden_arrays, golden_file

_TOLERANCE = 2e-4
_VARIANTS = golden_arrays("models/rope_variants.npz")


def _longrope() -> tuple[dict[str, Value | None], dict[str, np.ndarray]]:
    """What the converter writes of Phi 3's scaling."""
    keys: dict[str, Value | None] = {
        "phi3.rope.scaling.original_context_length": 64,
        "phi3.rope.scaling.attn_factor": float(_VARIANTS["longrope_attention_factor"]),
    }
    factors = {
        "rope_factors_short.weight": _VARIANTS["short_factors"],
        "rope_factors_long.weight": _VARIANTS["long_factors"],
    }
    return keys, factors


def _check(path: Path, model: str, variant: str, ids: str, context_cap: int = 0) -> None:
    tokens = golden_arrays(f"models/{model}.npz")[ids]
    found, _, _ = run(open_model(path, context_cap), tokens, [len(tokens)])
    np.testing.assert_allclose(found[-1], _VARIANTS[f"{variant}_last"], atol=_TOLERANCE, rtol=0)
    top = np.sort(found, axis=1)
    sure = top[:, -1] - top[:, -2] > 2 * _TOLERANCE
    assert sure.mean() > 0.98
    wanted = _VARIANTS[f"{variant}_argmax"]
    np.testing.assert_array_equal(found.argmax(axis=1)[sure], wanted[sure])


def test_long_factors_hold_for_a_context_beyond_the_original_one(tmp_path: Path) -> None:
    keys, factors = _longrope()
    source = golden_file("models/phi3-f32.gguf")
    path = rewritten(source, tmp_path / "long.gguf", metadata=keys, tensors=factors)
    _check(path, "phi3", "phi3_longrope_long", "ids300")


def test_short_factors_hold_where_the_context_is_capped_to_the_original_one(
    tmp_path: Path,
) -> None:
    keys, factors = _longrope()
    keys["phi3.rope.scaling.type"] = "longrope"
    source = golden_file("models/phi3-f32.gguf")
    path = rewritten(source, tmp_path / "short.gguf", metadata=keys, tensors=factors)
    _check(path, "phi3", "phi3_longrope_short", "ids", context_cap=64)


def test_a_token_sees_its_window_only(tmp_path: Path) -> None:
    source = golden_file("models/phi3-f32.gguf")
    changed: dict[str, Value | None] = {"phi3.attention.sliding_window": 40}
    path = rewritten(source, tmp_path / "window.gguf", metadata=changed)
    _check(path, "phi3", "phi3_window40", "ids300")


@pytest.mark.parametrize(
    ("variant", "keys"),
    [
        ("qwen2_linear", {"type": "linear", "factor": 4.0}),
        ("qwen2_yarn", {"type": "yarn", "factor": 4.0, "original_context_length": 64}),
        (
            "qwen2_yarn_betas",
            {
                "type": "yarn",
                "factor": 8.0,
                "original_context_length": 64,
                "yarn_beta_fast": 16.0,
                "yarn_beta_slow": 2.0,
            },
        ),
    ],
)
def test_scaling_by_metadata(tmp_path: Path, variant: str, keys: dict[str, Value]) -> None:
    metadata = {f"qwen2.rope.scaling.{key}": value for key, value in keys.items()}
    source = golden_file("models/qwen2-f32.gguf")
    path = rewritten(source, tmp_path / "scaled.gguf", metadata=metadata)
    _check(path, "qwen2", variant, "ids300")


@pytest.mark.parametrize(
    "metadata",
    [
        {"qwen2.rope.scaling.factor": 4.0},
        {"qwen2.rope.scale_linear": 4.0},
        {"qwen2.rope.scaling.factor": 4.0, "qwen2.rope.scale_linear": 8.0},
    ],
)
def test_a_factor_without_a_type_is_linear(tmp_path: Path, metadata: dict[str, Value]) -> None:
    """As llama.cpp reads files older than the type."""
    source = golden_file("models/qwen2-f32.gguf")
    path = rewritten(source, tmp_path / "scaled.gguf", metadata=metadata)
    _check(path, "qwen2", "qwen2_linear", "ids300")


def test_no_scaling_is_none_whatever_the_factor(tmp_path: Path) -> None:
    metadata: dict[str, Value | None] = {
        "qwen2.rope.scaling.type": "none",
        "qwen2.rope.scaling.factor": 4.0,
    }
    source = golden_file("models/qwen2-f32.gguf")
    with GGUFFile(rewritten(source, tmp_path / "plain.gguf", metadata=metadata)) as file:
        assert architecture_of(file).read_config(file).rope.scaling is None


def test_yarn_extends_the_whole_context_where_the_file_does_not_say(tmp_path: Path) -> None:
    metadata: dict[str, Value | None] = {
        "qwen2.rope.scaling.type": "yarn",
        "qwen2.rope.scaling.factor": 2.0,
    }
    source = golden_file("models/qwen2-f32.gguf")
    with GGUFFile(rewritten(source, tmp_path / "yarn.gguf", metadata=metadata)) as file:
        config = architecture_of(file).read_config(file)
    assert config.rope.scaling == YarnScaling(2.0, config.context_length, 32.0, 1.0)


@pytest.mark.parametrize(
    ("name", "dim", "base", "original", "factor"),
    [("yarn128", 128, 1e6, 32768, 4.0), ("yarn32", 32, 1e4, 64, 16.0)],
)
def test_yarn_frequencies(name: str, dim: int, base: float, original: int, factor: float) -> None:
    scaling = YarnScaling(factor, original, beta_fast=32.0, beta_slow=1.0)
    found = frequencies(RopeConfig(dim, base, Pairing.HALVES, scaling))
    np.testing.assert_allclose(found, _VARIANTS[f"{name}_frequencies"], rtol=1e-6)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"type": "cubic"}, "must be none, linear, yarn or longrope, got 'cubic'"),
        ({"type": "linear"}, r"rope\.scaling\.factor.* is missing"),
        ({"type": "linear", "factor": 0.5}, "factor must be at least 1.*, got 0.5"),
        ({"factor": 0.5}, "factor must be at least 1.*, got 0.5"),
        ({"type": "linear", "factor": 65536.0}, "below 65536, got 65536"),
        ({"type": "longrope"}, "rope_factors_long.weight is missing"),
        ({"attn_factor": -1.0}, "attn_factor must be positive"),
        (
            {
                "type": "yarn",
                "factor": 2.0,
                "original_context_length": 64,
                "yarn_ext_factor": 0.5,
            },
            "yarn_ext_factor must be 1.0, got 0.5",
        ),
    ],
)
def test_scaling_that_is_not_known_is_named(
    tmp_path: Path, keys: dict[str, Value], message: str
) -> None:
    metadata = {f"qwen2.rope.scaling.{key}": value for key, value in keys.items()}
    source = golden_file("models/qwen2-f32.gguf")
    path = rewritten(source, tmp_path / "refused.gguf", metadata=metadata)
    with pytest.raises(GGUFError, match=message):
        open_model(path)
