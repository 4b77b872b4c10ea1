"""Which layers a file of a hybrid model has (tests/data/README.md, models)."""

from pathlib import Path

import pytest

from pantheon.engine.admission import memory_need
from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model import ModelConfig, architecture_of
from tests.engine.model.forward import open_model
from tests.engine.model.rewritten import Value, rewritten
from tests.golden import golden_file

_HYBRID = (True, True, True, False) * 2


def _config(path: Path) -> ModelConfig:
    with GGUFFile(path) as file:
        return architecture_of(file).read_config(file)


def _changed(tmp_path: Path, name: str, metadata: dict[str, Value | None]) -> Path:
    source = golden_file(f"models/{name}-f32.gguf")
    return rewritten(source, tmp_path / f"{name}.gguf", metadata=metadata)


@pytest.mark.parametrize("name", ["qwen3next", "qwen35", "qwen35moe", "qwen35-mtp"])
def test_layer_kinds_by_the_array(name: str) -> None:
    """The block that predicts further tokens is no layer, though the array has it."""
    config = _config(golden_file(f"models/{name}-f32.gguf"))
    assert config.recurrent == _HYBRID
    assert config.attention_layers == 2
    assert config.kv_values_per_token == 2 * 2 * config.kv_heads * config.head_dim


def test_layer_kinds_by_the_interval_in_older_files(tmp_path: Path) -> None:
    path = _changed(tmp_path, "qwen35", {"qwen35.attention.recurrent_layers": None})
    assert _config(path).recurrent == _HYBRID


def test_the_array_rules_where_both_are_there(tmp_path: Path) -> None:
    path = _changed(tmp_path, "qwen35", {"qwen35.full_attention_interval": 2})
    assert _config(path).recurrent == _HYBRID


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("qwen35", {"qwen35.attention.recurrent_layers": [True] * 8}, "at least one of the 8"),
        ("qwen35", {"qwen35.attention.recurrent_layers": [True] * 7}, "each of 8 layers, got 7"),
        ("qwen35", {"qwen35.nextn_predict_layers": 8}, "must be less than block_count"),
        ("qwen35", {"qwen35.ssm.group_count": 3}, "time_step_rank must be a multiple of"),
        ("qwen35", {"qwen35.ssm.inner_size": 130}, "inner_size must be a multiple of"),
        ("qwen35", {"qwen35.ssm.conv_kernel": 1}, "between 2 and 64"),
        ("qwen3moe", {"qwen3moe.expert_used_count": 9}, "at most expert_count, got 9 and 8"),
        ("qwen3moe", {"qwen3moe.expert_gating_func": 2}, r"must be 1 \(softmax\), got 2"),
        ("qwen3moe", {"qwen3moe.expert_weights_scale": 2.5}, "must be 1, got 2.5"),
        ("qwen3moe", {"qwen3moe.expert_weights_norm": False}, "must be true, got false"),
        ("qwen3moe", {"qwen3moe.expert_feed_forward_length": None}, "is missing"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, name: str, changed: dict[str, Value | None], message: str
) -> None:
    with pytest.raises(GGUFError, match=message):
        _config(_changed(tmp_path, name, changed))


def test_a_block_that_predicts_is_unknown_unless_the_metadata_says_so(tmp_path: Path) -> None:
    """Every tensor must be understood, or the answers would be wrong."""
    keys: dict[str, Value | None] = {
        "qwen35.nextn_predict_layers": None,
        "qwen35.block_count": 8,
    }
    with pytest.raises(GGUFError, match=r"blk\.8\."):
        open_model(_changed(tmp_path, "qwen35-mtp", keys))


def test_an_architecture_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with (
        GGUFFile(golden_file("broken/unknown_arch.gguf")) as file,
        pytest.raises(GGUFError, match=r"one of: llama, phi3, .*qwen35moe; got 'zlama'"),
    ):
        architecture_of(file)


def test_a_block_that_predicts_nothing_is_not_passed_over(tmp_path: Path) -> None:
    """Only tensors named `nextn` make a block one that may be left in the file."""
    path = _changed(tmp_path, "qwen35", {"qwen35.nextn_predict_layers": 1})
    with pytest.raises(GGUFError, match=r"must be known.*'blk\.7\."):
        open_model(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"qwen35.attention.recurrent_layers": None, "qwen35.full_attention_interval": 1},
        {"qwen35.attention.recurrent_layers": [False] * 8},
    ],
)
def test_a_hybrid_whose_layers_all_attend_lacks_their_tensors(
    tmp_path: Path, changed: dict[str, Value | None]
) -> None:
    """Scenario 142: a clear error, and no division by zero on the way."""
    path = _changed(tmp_path, "qwen35", changed)
    with GGUFFile(path) as file:
        assert memory_need(file, _config(path), ctx_cap=0).steps > 0
    with pytest.raises(GGUFError, match="is missing from"):
        open_model(path)
