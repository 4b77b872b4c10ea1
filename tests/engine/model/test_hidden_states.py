"""What each layer leaves, against transformers (tests/data/README.md, models: `hidden`, states)."""

import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.model.norms import rms_norm
from tests.engine.model.forward import first_layers, open_model, run
from tests.golden import golden_arrays, golden_file

_RELATIVE = 1e-3
"""Of the largest entry, as the reference data recommends."""

_GRID = 128
_MODELS = ["llama3-rope", "phi3", "qwen2", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe"]
_RECURRENT = ["qwen3next", "qwen35", "qwen35moe"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _MODELS)
def test_hidden_states_in_the_middle(name: str) -> None:
    """A model that ends after some of its layers: its final norm of what they leave."""
    model = open_model(golden_file(f"models/{name}-f32.gguf"))
    _, config, parameters = model
    # The first layer that attends is the fourth of a recurrent model.
    count = 4 if any(config.recurrent) else 1
    golden = golden_arrays(f"models/{name}.npz")
    middle = jnp.asarray(golden["hidden"][count])
    expected = np.asarray(rms_norm(middle, parameters.output_norm, config.rms_epsilon))
    _, found, _ = run(first_layers(model, count), golden["ids"], [48])
    np.testing.assert_allclose(found, expected, atol=_RELATIVE * np.abs(expected).max(), rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _RECURRENT)
@pytest.mark.parametrize("cuts", [[48], [17, 31], [40, *[1] * 8]])
def test_states_after_the_prompt(name: str, cuts: list[int]) -> None:
    """The value heads in the file's order, which only qwen3next shares with transformers."""
    model = open_model(golden_file(f"models/{name}-f32.gguf"))
    golden = golden_arrays(f"models/{name}.npz")
    order = "hf" if name == "qwen3next" else "gguf"
    _, _, cache = run(model, golden["ids"], cuts, grid=_GRID)
    for layer in (0, 6):
        inputs, state = cache.recurrent[2 * sum(model[1].recurrent[:layer]) :][:2]
        convolution = golden[f"conv_{order}_L{layer}"]
        # The last inputs of the convolution, of which a kernel of four taps needs three.
        pairs = ((inputs[0].T, convolution[:, 1:]), (state[0], golden[f"state_{order}_L{layer}"]))
        for found, expected in pairs:
            largest = np.abs(expected).max()
            np.testing.assert_allclose(found, expected, atol=_RELATIVE * largest, rtol=0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["qwen35", "qwen35moe"])
def test_a_cut_on_the_grid_changes_no_bit(name: str) -> None:
    """Prompts are cut at multiples of 64 for checkpoints: states, keys and hidden states are the
    same bits as without the cut, whatever the padding of the steps."""
    model = open_model(golden_file(f"models/{name}-f32.gguf"))
    ids = golden_arrays(f"models/{name}.npz")["ids300"]
    _, whole, left = run(model, ids, [128, 128, 44], grid=_GRID)
    _, cut, left_by_cut = run(model, ids, [64, 64, 64, 64, 44], grid=_GRID)
    np.testing.assert_array_equal(cut, whole)
    for found, expected in zip(left_by_cut.recurrent, left.recurrent, strict=True):
        np.testing.assert_array_equal(found, expected)
    for found_kv, expected_kv in zip(left_by_cut.kv, left.kv, strict=True):
        np.testing.assert_array_equal(found_kv.keys, expected_kv.keys)
        np.testing.assert_array_equal(found_kv.values, expected_kv.values)
