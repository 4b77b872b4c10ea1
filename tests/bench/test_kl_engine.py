"""Logits of the engine's steps against transformers' (tests/data/models)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.errors import BenchError
from bench.kl_engine import MODES, EngineLogits, Mode
from pantheon.settings import Settings
from tests.golden import golden_arrays, golden_file

GOLDEN = golden_arrays("models/llama-smollm.npz")
TOLERANCE = 2e-4
"""What tests/data/README.md recommends for two correct programs in float32."""


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineLogits]:
    settings = {"PANTHEON_NATIVE": "0", "PANTHEON_PRECISION": "float32"}
    mode = Mode("XLA in float32", settings)
    found = EngineLogits(golden_file("models/llama-smollm-f32.gguf"), 384, mode)
    yield found
    found.close()


def test_a_prefill_has_the_logits_of_transformers(engine: EngineLogits) -> None:
    found = engine.prefilled(GOLDEN["ids"].tolist(), range(0, 48))
    vocabulary = GOLDEN["logits"].shape[1]
    np.testing.assert_allclose(found[:, :vocabulary], GOLDEN["logits"], rtol=0, atol=TOLERANCE)


def test_a_prefill_of_several_chunks_has_them_at_every_position(engine: EngineLogits) -> None:
    wanted = range(120, 299)
    found = engine.prefilled(GOLDEN["ids300"].tolist(), wanted)
    expected = GOLDEN["logits300"][wanted.start : wanted.stop]
    np.testing.assert_allclose(found[:, : expected.shape[1]], expected, rtol=0, atol=TOLERANCE)


def test_fed_tokens_have_the_logits_of_transformers(engine: EngineLogits) -> None:
    wanted = range(140, 150)
    found = engine.decoded(GOLDEN["ids300"].tolist(), wanted)
    expected = GOLDEN["logits300"][wanted.start : wanted.stop]
    np.testing.assert_allclose(found[:, : expected.shape[1]], expected, rtol=0, atol=TOLERANCE)


def test_every_mode_is_chosen_by_settings_that_there_are() -> None:
    declared = {declaration.env for _, declaration, _ in Settings.declarations()}
    assert {name for mode in MODES for name in mode.settings} <= declared


def test_a_file_that_is_no_model_is_an_error_of_the_bench(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(BenchError, match="x"):
        EngineLogits(tmp_path / "x.gguf", 256, Mode("XLA", {"PANTHEON_NATIVE": "0"}))
