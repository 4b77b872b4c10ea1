"""Where the matrices of the layers lie: in one piece, which a step takes as one argument."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from pantheon.engine.model import native_missing
from pantheon.engine.model.read import held_bytes
from pantheon.engine.model.weight_memory import WeightMemory
from tests.engine.model.forward import open_model
from tests.golden import golden_file


def _resident() -> int:
    """Bytes of this process's own memory."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def test_matrices_share_the_memory_of_the_whole() -> None:
    memory = WeightMemory(1000)
    first, at_first = memory.take(3, 33)
    second, at_second = memory.take(2, 100)
    assert (at_first, at_second) == (0, 128), "each begins where XLA takes arrays over"
    first[:], second[:] = 5, 7
    arrays = jax.device_put(first), jax.device_put(second)
    whole = memory.array()
    expected = [5] * 99 + [0] * 29 + [7] * 200
    np.testing.assert_array_equal(whole[:328], expected)
    pointers = [array.unsafe_buffer_pointer() - whole.unsafe_buffer_pointer() for array in arrays]
    assert pointers == [0, 128]
    assert held_bytes((arrays, whole)) == whole.nbytes, "memory that is shared counts once"


def test_more_than_was_asked_for_is_refused() -> None:
    memory = WeightMemory(100)
    memory.take(1, 60)
    with pytest.raises(ValueError, match="expected at most 36 more bytes of weights, got 37"):
        memory.take(1, 37)
    memory.take(1, 36)


def test_memory_is_taken_where_something_is_put_and_goes_with_the_last_array() -> None:
    size = 64 << 20
    before = _resident()
    memory = WeightMemory(2 * size)
    assert _resident() - before < size // 8, "address space alone"
    part, _ = memory.take(1, size)
    part[:] = 1
    array, whole = jax.device_put(part), memory.array()
    assert abs(_resident() - before - size) < size // 8, "no copies"
    del memory, part, whole
    gc.collect()
    assert int(array[0, -1]) == 1
    array.delete()
    del array
    gc.collect()
    assert _resident() - before < size // 8


@pytest.mark.skipif(native_missing() is not None, reason=f"no native kernels: {native_missing()}")
@pytest.mark.parametrize("name", ["llama-smollm", "phi3", "qwen3moe", "qwen35"])
def test_all_matrices_of_layers_lie_together(name: str) -> None:
    _, _, parameters = open_model(golden_file(f"models/{name}-f32.gguf"))
    assert parameters.memory is not None
    assert held_bytes((parameters.memory, parameters.layers)) < 1.001 * (
        held_bytes(parameters.layers) + 64 * 1000
    )
    begin = parameters.memory.unsafe_buffer_pointer()
    end = begin + parameters.memory.nbytes
    packed = [leaf for leaf in jax.tree.leaves(parameters.layers) if leaf.dtype == np.uint8]
    assert all(begin <= leaf.unsafe_buffer_pointer() < end for leaf in packed)
