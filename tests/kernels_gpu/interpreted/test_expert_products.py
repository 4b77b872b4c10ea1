"""Products with the matrices of chosen experts in Triton's interpreter, against the reference and
values by the gguf package."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels.expert_matmul import ExpertPairs, by_expert, reference, tiles_of
from pantheon.engine.kernels.expert_matmul.cases import CASES, Case
from pantheon.engine.kernels.expert_matmul.triton_product import FEW, grouped_launch
from tests.kernels_gpu.interpreted.interpreter import interpreted
from tests.kernels_gpu.interpreted.raw_blocks import far, raw_matrices

_TYPES = ("Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_0")
_FLOAT32 = 1e-6


def _product(
    x: np.ndarray, data: np.ndarray, type: str, pairs: ExpertPairs, sources: np.ndarray
) -> np.ndarray:
    """Places that are in no tile are NaN."""
    launch = grouped_launch(x.shape, x.dtype.name, data.shape, type, len(sources), FEW)
    cut = [np.asarray(one) for one in tiles_of(pairs, FEW.rows)]
    return interpreted(launch, x, data, *cut, sources, shape=(len(sources), data.shape[1]))


def _sorted(case: Case) -> tuple[ExpertPairs, np.ndarray, np.ndarray]:
    """Pairs, their sources, and the expert of each place."""
    chosen = case.chosen()
    pairs = by_expert(jnp.asarray(chosen), case.experts)
    order = np.asarray(pairs.order)
    return pairs, (order // case.used).astype(np.int32), chosen.reshape(-1)[order]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("type", _TYPES)
def test_places_are_products_with_their_experts(type: str, case: Case) -> None:
    data, values = raw_matrices(type, (case.experts, case.outputs), case.inputs)
    x = np.random.default_rng(1).standard_normal((case.tokens, case.inputs), np.float32)
    pairs, sources, experts = _sorted(case)
    found = _product(x, data, type, pairs, sources)
    for place, expert in enumerate(experts):
        if expert < case.experts:
            row = x[sources[place]][None]
            assert far(found[place][None], row, values[expert]) < _FLOAT32
        else:
            assert np.isnan(found[place]).all(), "padding is written"


def test_the_reference_is_the_same_with_zeros_for_padding() -> None:
    case = CASES[1]
    data, values = raw_matrices("Q4_K", (case.experts, case.outputs), case.inputs)
    x = np.random.default_rng(1).standard_normal((case.tokens, case.inputs), np.float32)
    pairs, sources, experts = _sorted(case)
    expected = reference(
        jnp.asarray(x), jnp.asarray(values, jnp.float32), pairs, jnp.asarray(sources)
    )
    found = np.where(
        (experts < case.experts)[:, None], _product(x, data, "Q4_K", pairs, sources), 0
    )
    magnitude = np.abs(found).max()
    np.testing.assert_allclose(np.asarray(expected), found, rtol=0, atol=1e-5 * magnitude)


def test_a_token_is_the_same_alone_and_in_company() -> None:
    """Bit for bit: the same choices in a step of one token and of eight."""
    case = CASES[1]
    data, _ = raw_matrices("Q4_K", (case.experts, case.outputs), case.inputs)
    x = np.random.default_rng(1).standard_normal((case.tokens, case.inputs), np.float32)
    pairs, sources, _ = _sorted(case)
    among = _product(x, data, "Q4_K", pairs, sources)
    own = by_expert(jnp.asarray(case.chosen()[:1]), case.experts)
    order = np.asarray(own.order)
    alone = _product(x[:1], data, "Q4_K", own, np.zeros(case.used, np.int32))
    places = [int(np.flatnonzero(np.asarray(pairs.order) == pair)[0]) for pair in order]
    np.testing.assert_array_equal(among[places], alone)
