"""Every implementation of the gated delta rule against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels.gated_delta_rule import api
from pantheon.engine.kernels.gated_delta_rule import reference as definition
from pantheon.engine.kernels.gated_delta_rule.cases import CASES, Case

gated_delta_rule = jax.jit(api.gated_delta_rule)
reference = jax.jit(definition.reference)
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
@pytest.mark.parametrize("implementation", [reference, gated_delta_rule], ids=["ref", "api"])
def test_equals_the_recurrence(case: Case, implementation: object) -> None:
    assert callable(implementation)
    arguments = case.arguments()
    mixed, state = implementation(*map(jnp.asarray, arguments))
    expected, expected_state = _token_by_token(arguments)
    valid = arguments[5]
    np.testing.assert_allclose(mixed[valid], expected[valid], atol=2e-5)
    np.testing.assert_allclose(state, expected_state, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_row_without_valid_tokens_keeps_its_state_bit_for_bit(case: Case) -> None:
    *given, valid, state = map(jnp.asarray, case.arguments())
    _, following = gated_delta_rule(*given, jnp.zeros_like(valid), state)
    np.testing.assert_array_equal(following, state)


def test_a_cut_on_the_grid_of_chunks_changes_no_bit() -> None:
    """As a prompt is cut for a checkpoint: the rest of the step is padding."""
    *given, valid, state = map(jnp.asarray, _LONG.arguments())
    whole, end = gated_delta_rule(*given, valid, state)
    place = jnp.arange(valid.shape[1])
    for cut in (64, 128):
        first, middle = gated_delta_rule(*given, valid & (place < cut), state)
        second, last = gated_delta_rule(*given, valid & (place >= cut), middle)
        np.testing.assert_array_equal(last, end)
        np.testing.assert_array_equal(first[:, :cut], whole[:, :cut])
        np.testing.assert_array_equal(second[:, cut:], whole[:, cut:])


def test_steps_of_one_token_agree_with_one_step_of_all() -> None:
    *given, valid, state = map(jnp.asarray, _LONG.arguments())
    whole, end = gated_delta_rule(*given, valid, state)
    found = []
    for at in range(valid.shape[1]):
        token = [part[:, at : at + 1] for part in (*given, valid)]
        mixed, state = gated_delta_rule(*token, state)
        found.append(mixed)
    np.testing.assert_allclose(jnp.concatenate(found, axis=1), whole, atol=2e-5)
    np.testing.assert_allclose(state, end, atol=2e-5)


def test_a_row_is_bitwise_the_same_beside_other_rows() -> None:
    """In a decode step, whose number of rows is fixed: what stands in the others differs."""
    case = Case("decode of eight rows", 1, 4, 32, 32, ((0, 1),) * 8)
    arguments = [jnp.asarray(part) for part in case.arguments()]
    others = [jnp.asarray(part) for part in case.arguments(seed=1)]
    mixed, state = gated_delta_rule(*arguments)
    changed = [other.at[3].set(part[3]) for part, other in zip(arguments, others, strict=True)]
    beside, state_beside = gated_delta_rule(*changed)
    np.testing.assert_array_equal(beside[3], mixed[3])
    np.testing.assert_array_equal(state_beside[3], state[3])
