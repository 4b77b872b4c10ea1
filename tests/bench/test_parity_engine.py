"""Our side of the comparison, held to transformers (tests/data/README.md, models)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.errors import BenchError
from bench.parity_engine import config_of, continue_greedily

DATA = Path(__file__).resolve().parent.parent / "data"
MODEL = DATA / "models" / "qwen3-f32.gguf"


def test_log_probabilities_and_tokens_are_those_of_the_reference() -> None:
    """`greedy` of `ids`, and the last logits of `ids`, `ids1` and `ids300`, each in its row."""
    golden = np.load(DATA / "models" / "qwen3.npz")
    prompts = [golden[name].tolist() for name in ("ids1", "ids", "ids300")]
    found = continue_greedily(MODEL, prompts, 24, 512, ())
    assert found[1].tokens == tuple(golden["greedy"].tolist())
    last = (golden["logits1"][-1], golden["logits"][-1], golden["logits300_last"])
    for continuation, logits in zip(found, last, strict=True):
        assert continuation.logprobs.shape == (24, len(logits))
        expected = logits.astype(np.float64) - np.logaddexp.reduce(logits.astype(np.float64))
        np.testing.assert_allclose(continuation.logprobs[0], expected, atol=2e-4, rtol=0)
    # Every token is the likeliest of its own place: none is taken from a step before or after.
    for continuation in found:
        assert continuation.tokens == tuple(continuation.logprobs.argmax(axis=1).tolist())

    refused = [found[1].tokens[0], found[1].tokens[3]]
    without = continue_greedily(MODEL, prompts[1:2], 2, 512, refused)[0]
    np.testing.assert_allclose(without.logprobs[0], found[1].logprobs[0], atol=1e-5, rtol=0)
    allowed = found[1].logprobs[0].copy()
    allowed[refused] = -np.inf
    assert without.tokens[0] == int(allowed.argmax())
    assert not set(without.tokens) & set(refused)


def test_a_window_beyond_the_models_is_an_error() -> None:
    with pytest.raises(BenchError, match="context of at least 4096 tokens, got 1024"):
        continue_greedily(MODEL, [[1]], 1, 4096, ())


def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "nothing.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(BenchError, match=r"nothing\.gguf"):
        config_of(file)
