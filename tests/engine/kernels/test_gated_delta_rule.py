"""Every implementation of the gated delta rule against its definition."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax._src.mesh import AbstractDevice
from jax.sharding import AbstractMesh, use_abstract_mesh

from pantheon.engine.kernels.gated_delta_rule import api
from pantheon.engine.kernels.gated_delta_rule import reference as definition
from pantheon.engine.kernels.gated_delta_rule.cases import CASES, Case
from pantheon.engine.kernels.gated_delta_rule.fused_chunks import ChunkTiles, fused_chunks
from pantheon.engine.kernels.gated_delta_rule.fused_step import StepTiles, fused_step
from pantheon.engine.kernels.implementation import Implementation

_Implementation = Callable[..., tuple[jax.Array, jax.Array]]

gated_delta_rule = jax.jit(api.gated_delta_rule)
reference = jax.jit(definition.reference)


# Interpreted, a kernel is a large program that runs for a moment.
@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def fused(query: jax.Array, *others: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The Pallas kernels, interpreted, with more than one tile of the value dimensions."""
    if query.shape[1] == 1:
        return fused_step(query, *others, tiles=StepTiles(values=16), interpret=True)
    return fused_chunks(query, *others, tiles=ChunkTiles(values=16), interpret=True)


_BY_NAME: dict[str, _Implementation] = {
    "reference": reference,
    "api": gated_delta_rule,
    "fused": fused,
}
_every = pytest.mark.parametrize("implementation", _BY_NAME.values(), ids=_BY_NAME)
_used = pytest.mark.parametrize("implementation", [gated_delta_rule, fused], ids=["api", "fused"])
_LONG = Case("a long step", 192, 2, 32, 32, ((0, 192),))


def _token_by_token(arguments: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The recurrence as it is written down (Yang et al., 2024, equation 10), in float64 numpy."""
    query, key, value, log_decay, strength, valid, state = (
        part.astype(np.float64) for part in arguments
    )
    mixed = np.zeros(value.shape)
    state = state.copy()
    batch, time, heads, _ = value.shape
    for row, at, head in np.ndindex(batch, time, heads):
        if not valid[row, at]:
            continue
        k, v, old = key[row, at, head], value[row, at, head], state[row, head]
        gate, beta = np.exp(log_decay[row, at, head]), strength[row, at, head]
        projection = np.eye(k.size) - beta * np.outer(k, k)
        state[row, head] = gate * projection @ old + beta * np.outer(k, v)
        mixed[row, at, head] = state[row, head].T @ query[row, at, head]
    return mixed, state


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@_every
def test_equals_the_recurrence(case: Case, implementation: _Implementation) -> None:
    arguments = case.arguments()
    mixed, state = implementation(*map(jnp.asarray, arguments))
    expected, expected_state = _token_by_token(arguments)
    valid = arguments[5]
    np.testing.assert_allclose(mixed[valid], expected[valid], atol=2e-5)
    np.testing.assert_allclose(state, expected_state, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@_used
def test_a_row_without_valid_tokens_keeps_its_state_bit_for_bit(
    case: Case, implementation: _Implementation
) -> None:
    *tokens, valid, state = map(jnp.asarray, case.arguments())
    _, following = implementation(*tokens, jnp.zeros_like(valid), state)
    np.testing.assert_array_equal(following, state)


@_used
def test_a_cut_on_the_grid_of_chunks_changes_no_bit(implementation: _Implementation) -> None:
    """As a prompt is cut for a checkpoint: the rest of the step is padding."""
    *tokens, valid, state = map(jnp.asarray, _LONG.arguments())
    whole, end = implementation(*tokens, valid, state)
    place = jnp.arange(valid.shape[1])
    for cut in (64, 128):
        first, middle = implementation(*tokens, valid & (place < cut), state)
        second, last = implementation(*tokens, valid & (place >= cut), middle)
        np.testing.assert_array_equal(last, end)
        np.testing.assert_array_equal(first[:, :cut], whole[:, :cut])
        np.testing.assert_array_equal(second[:, cut:], whole[:, cut:])


@_used
def test_steps_of_one_token_agree_with_one_step_of_all(implementation: _Implementation) -> None:
    *tokens, valid, state = map(jnp.asarray, _LONG.arguments())
    whole, end = implementation(*tokens, valid, state)
    found = []
    for at in range(valid.shape[1]):
        token = [part[:, at : at + 1] for part in (*tokens, valid)]
        mixed, state = implementation(*token, state)
        found.append(mixed)
    np.testing.assert_allclose(jnp.concatenate(found, axis=1), whole, atol=2e-5)
    np.testing.assert_allclose(state, end, atol=2e-5)


@_used
def test_a_row_is_bitwise_the_same_beside_other_rows(implementation: _Implementation) -> None:
    """In a decode step, whose number of rows is fixed: what stands in the others differs."""
    case = Case("decode of eight rows", 1, 4, 32, 32, ((0, 1),) * 8)
    arguments = [jnp.asarray(part) for part in case.arguments()]
    others = [jnp.asarray(part) for part in case.arguments(seed=1)]
    mixed, state = implementation(*arguments)
    changed = [other.at[3].set(part[3]) for part, other in zip(arguments, others, strict=True)]
    beside, state_beside = implementation(*changed)
    np.testing.assert_array_equal(beside[3], mixed[3])
    np.testing.assert_array_equal(state_beside[3], state[3])


@pytest.mark.parametrize("time", [1, 64])
def test_fused_rows_are_bitwise_the_same_in_batches_of_all_sizes(time: int) -> None:
    case = Case("three rows", time, 2, 16, 16, ((0, time),) * 3)
    arguments = [jnp.asarray(part) for part in case.arguments()]
    together = fused(*arguments)
    alone = fused(*(part[1:2] for part in arguments))
    for one, all_of_them in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one[0], all_of_them[1])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.tuples(*[st.tuples(st.integers(0, 90), st.integers(0, 90))] * 2))
def test_fused_chunks_of_any_span_equal_the_recurrence(
    seed: int, spans: tuple[tuple[int, int], ...]
) -> None:
    """What stands at tokens that are not valid is not read, and their output is zeros."""
    case = Case("any spans", 90, 1, 40, 24, tuple((min(span), max(span)) for span in spans))
    *tokens, valid, state = case.arguments(seed)
    expected, expected_state = _token_by_token((*tokens, valid, state))
    for part in tokens:
        part[~valid] = np.nan
    mixed, following = fused(*map(jnp.asarray, (*tokens, valid, state)))
    np.testing.assert_allclose(mixed, expected, atol=2e-5)
    np.testing.assert_allclose(following, expected_state, atol=2e-5)


@pytest.mark.parametrize("time", [1, 64])
def test_fused_takes_tokens_of_16_bits(time: int) -> None:
    """The state stays float32; the output is as far off as its own type makes it."""
    *tokens, valid, state = Case("halves", time, 2, 16, 16, ((0, time),)).arguments()
    halves = [part.astype(np.float16) for part in tokens]
    mixed, following = fused(*map(jnp.asarray, (*halves, valid, state)))
    expected, expected_state = _token_by_token((*halves, valid, state))
    assert (mixed.dtype, following.dtype) == (jnp.float16, jnp.float32)
    np.testing.assert_allclose(mixed, expected, rtol=1e-3, atol=2e-5)
    np.testing.assert_allclose(following, expected_state, atol=2e-5)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
@pytest.mark.parametrize(
    ("case", "kernels"), [(CASES[0], 1), (_LONG, 2)], ids=["decode", "prefill"]
)
def test_a_gpu_is_given_the_kernels(case: Case, kernels: int) -> None:
    """Lowered as for an H200, which needs no GPU; Triton takes fewer operations than XLA."""
    device = AbstractDevice("NVIDIA H200", None, "cuda")
    rule = jax.jit(partial(api.gated_delta_rule, implementation=Implementation.GPU))
    with use_abstract_mesh(AbstractMesh((1,), ("devices",), abstract_device=device)):
        lowered = rule.trace(*case.arguments()).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("custom_call @__gpu$xla.gpu.triton(") == kernels
