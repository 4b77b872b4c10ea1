"""A model split over several files answers as the whole one (tests/data/README.md, models)."""

from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.gguf import GGUFFile
from tests.engine.gguf.split import split_model
from tests.engine.model.forward import all_logits
from tests.golden import golden_arrays, golden_file


@pytest.mark.parametrize(("name", "tied"), [("llama-minicpm5", False), ("llama-smollm", True)])
def test_logits_and_the_head_of_the_whole_set(tmp_path: Path, name: str, tied: bool) -> None:
    """Scenario, tied embeddings: `output.weight` may be in another file than the first."""
    paths = split_model(golden_file(f"models/{name}-f32.gguf"), tmp_path, 6)
    assert len(paths) > 2
    with GGUFFile(paths[0]) as file:
        assert ("output.weight" in file.tensors) is not tied
    golden = golden_arrays(f"models/{name}.npz")
    found = all_logits(paths[0], golden["ids"], [48])
    np.testing.assert_allclose(found, golden["logits"], atol=2e-4, rtol=0)
