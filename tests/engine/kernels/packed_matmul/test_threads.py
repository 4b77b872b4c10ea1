"""The threads of the native kernels as JAX calls them; `tests/native` has them by themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels.native import native_library
from pantheon.engine.kernels.packed_matmul import products
from tests.engine.kernels.packed_matmul.packed_matrices import sample

_LIBRARY = native_library()
pytestmark = pytest.mark.skipif(
    _LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}"
)


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    yield
    _LIBRARY.set_threads(0)


def _multiply(x: np.ndarray, matrix: object) -> np.ndarray:
    return np.asarray(jax.jit(products)(jnp.asarray(x), [matrix])[0])


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    matrix = sample("Q4_K", 300, 512).matrix()
    for rows in (1, 8, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 512), np.float32)
        found = []
        for count in (1, 2, 3, 7):
            _LIBRARY.set_threads(count)
            found.append(_multiply(x, matrix))
        for one in found[1:]:
            np.testing.assert_array_equal(one, found[0])


def test_callers_at_once_get_their_own_results() -> None:
    """As the engine threads of several models call."""
    _LIBRARY.set_threads(2)
    matrices = [sample("Q4_0", 200 + 32 * i, 256, seed=i).matrix() for i in range(4)]
    x = [np.random.default_rng(i).standard_normal((1 + i, 256), np.float32) for i in range(4)]
    expected = [_multiply(*pair) for pair in zip(x, matrices, strict=True)]
    wrong: list[int] = []

    def call(index: int) -> None:
        for _ in range(50):
            if not np.array_equal(_multiply(x[index], matrices[index]), expected[index]):
                wrong.append(index)

    callers = [threading.Thread(target=call, args=(index,)) for index in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers), "they wait for each other"
    assert wrong == []
