"""INT8 at load (reference, `POST /admin/models/load`, `quantize`): what becomes INT8, how much
smaller it is, and how far its logits are from those of the file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import WeightReader, architecture_of
from pantheon.engine.model.dequantize import OwnType
from pantheon.engine.model.dequantize.int8 import int8_rows, quantise_rows
from pantheon.engine.model.packed import PackedMatrix
from pantheon.engine.model.read import held_bytes
from tests.engine.model.forward import Model, open_model, run
from tests.golden import golden_arrays, golden_file


def _open_quantised(name: str) -> Model:
    with GGUFFile(golden_file(name)) as file:
        architecture = architecture_of(file)
        config = architecture.read_config(file)
        reader = WeightReader(file, quantize=True)
        parameters = architecture.read_parameters(reader, config, lambda done, total: None)
    return architecture, config, parameters


def _packed(model: Model) -> list[PackedMatrix]:
    leaves = jax.tree.leaves(model[2], is_leaf=lambda leaf: isinstance(leaf, PackedMatrix))
    return [leaf for leaf in leaves if isinstance(leaf, PackedMatrix)]


def test_each_value_is_off_by_half_a_step_at_most() -> None:
    """The step of a group of 64 is a 127th of its largest magnitude. Group 3 is all zeros."""
    values = np.random.default_rng(0).standard_normal((5, 256), np.float32)
    values *= np.logspace(-20, 20, 20, dtype=np.float32).reshape(5, 4).repeat(64, axis=1)
    values[:, 192:] = 0
    found = np.asarray(jax.jit(int8_rows)(jnp.asarray(quantise_rows(values))))
    groups = np.abs(values).reshape(5, 4, 64).max(axis=-1).repeat(64).reshape(5, 256)
    assert (np.abs(found - values) <= groups / 127 / 2 * 1.0001).all()
    assert not found[:, 192:].any()


def test_logits_are_as_near_as_those_of_q8_0() -> None:
    """tests/data/quant/llama-smollm-Q8_0.npz has the logits of the same model and prompt after
    ggml's 8-bit quantisation; measured: rms 0.056 (Q8_0 0.059), largest 0.28 (0.39)."""
    golden = golden_arrays("models/llama-smollm.npz")
    peer = golden_arrays("quant/llama-smollm-Q8_0.npz")["logits"] - golden["logits"]
    model = _open_quantised("models/llama-smollm-f32.gguf")
    error = run(model, golden["ids"], [48])[0] - golden["logits"]
    assert np.sqrt(np.mean(error**2)) < np.sqrt(np.mean(peer**2))
    assert np.abs(error).max() < np.abs(peer).max()


@pytest.mark.parametrize("name", ["models/llama-smollm-f32.gguf"])
def test_what_is_held_shrinks(name: str) -> None:
    """Two float32 layers of five matrices with 128 rows and columns or more, and the embedding,
    which is the head too; the key and value matrices have 64 rows and stay."""
    model, plain = _open_quantised(name), open_model(golden_file(name))
    packed = _packed(model)
    assert [matrix.type for matrix in packed] == [OwnType.INT8] * 12
    assert all(matrix.data.nbytes == np.prod(matrix.shape) * 17 // 16 for matrix in packed)
    assert held_bytes(model[2]) < 0.33 * held_bytes(plain[2])


@pytest.mark.parametrize("name", ["quant/llama-smollm-Q4_K_M.gguf", "quant/llama-smollm-Q8_0.gguf"])
def test_packed_files_stay_as_they_are(name: str) -> None:
    """Bit for bit: INT8 would be no smaller."""
    quantised = _packed(_open_quantised(name))
    plain = _packed(open_model(golden_file(name), native=False))
    for found, expected in zip(quantised, plain, strict=True):
        assert found.type is expected.type
        np.testing.assert_array_equal(found.data, expected.data)
