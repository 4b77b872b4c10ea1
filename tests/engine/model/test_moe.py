"""The mixture of experts (Shazeer et al., 2017): weights, independence of rows, cost."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from pantheon.engine.model.config import MoeConfig
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.moe import MoeParameters, mixture

_HIDDEN, _INNER, _SHARED = 32, 48, 24
_CONFIG = MoeConfig(experts=6, used=2, inner=_INNER, shared_inner=_SHARED)


def _normal(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * 0.3


def _parameters(shared: bool = True) -> MoeParameters:
    experts = _CONFIG.experts
    plain = MoeParameters(
        router=jnp.asarray(_normal(1, experts, _HIDDEN)),
        gate=jnp.asarray(_normal(2, experts, _INNER, _HIDDEN)),
        up=jnp.asarray(_normal(3, experts, _INNER, _HIDDEN)),
        down=jnp.asarray(_normal(4, experts, _HIDDEN, _INNER)),
    )
    if not shared:
        return plain
    own = MlpParameters(
        *(jnp.asarray(_normal(seed, _SHARED, _HIDDEN)) for seed in (5, 6)),
        jnp.asarray(_normal(7, _HIDDEN, _SHARED)),
    )
    return plain._replace(shared=own, shared_gate=jnp.asarray(_normal(8, _HIDDEN)))


def _expected(parameters: MoeParameters, token: NDArray[np.float32]) -> NDArray[np.float64]:
    """One token in float64 numpy, each expert by itself."""
    x = token.astype(np.float64)

    def through(gate: object, up: object, down: object) -> NDArray[np.float64]:
        g, u, d = (np.asarray(part, np.float64) for part in (gate, up, down))
        before = g @ x
        result: NDArray[np.float64] = d @ (before / (1 + np.exp(-before)) * (u @ x))
        return result

    scores = np.exp(np.asarray(parameters.router, np.float64) @ x)
    chosen = np.argsort(-scores)[: _CONFIG.used]
    mixed = sum(
        scores[one]
        / scores[chosen].sum()
        * through(parameters.gate[one], parameters.up[one], parameters.down[one])
        for one in chosen
    )
    if parameters.shared is not None:
        share = 1 / (1 + np.exp(-(np.asarray(parameters.shared_gate, np.float64) @ x)))
        mixed = mixed + share * through(*parameters.shared)
    return np.asarray(mixed)


_mixture = jax.jit(partial(mixture, config=_CONFIG))


def test_each_token_goes_through_its_best_experts() -> None:
    """The weights of the experts that are used sum to one."""
    for shared in (True, False):
        parameters, x = _parameters(shared), _normal(9, 1, 40, _HIDDEN) * 5
        found = _mixture(parameters, x=jnp.asarray(x), valid=jnp.ones((1, 40), bool))
        expected = [_expected(parameters, token) for token in x[0]]
        np.testing.assert_allclose(found[0], expected, atol=1e-5)


def test_a_token_is_bitwise_the_same_whatever_the_others_are() -> None:
    """The others decide in which product, and at which of its places, a token is computed."""
    parameters = _parameters()
    mine = _normal(10, 3, _HIDDEN)
    found = []
    for seed in range(20, 28):
        x = _normal(seed, 1, 64, _HIDDEN) * 5
        # All of one row go to the same experts: their groups are then full.
        x[0, 32:] = x[0, 32]
        x[0, [5, 17, 60]] = mine
        valid = np.random.default_rng(seed).random((1, 64)) < 0.7
        valid[0, [5, 17, 60]] = True
        mixed = _mixture(parameters, x=jnp.asarray(x), valid=jnp.asarray(valid))
        found.append(np.asarray(mixed)[0, [5, 17, 60]])
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


def test_an_expert_that_no_valid_token_uses_is_not_touched() -> None:
    """Cost follows the experts in use: the others may as well be no numbers."""
    parameters, x = _parameters(), _normal(11, 1, 16, _HIDDEN)
    scores = x[0] @ np.asarray(parameters.router).T
    used = np.argsort(-scores, axis=1)[:, : _CONFIG.used]
    valid = np.array([[0 not in row for row in used]])
    assert valid.any() and not valid.all()
    broken = parameters._replace(
        gate=parameters.gate.at[0].set(jnp.nan),  # type: ignore[union-attr]
        down=parameters.down.at[0].set(jnp.nan),  # type: ignore[union-attr]
    )
    found = _mixture(broken, x=jnp.asarray(x), valid=jnp.asarray(valid))
    sound = _mixture(parameters, x=jnp.asarray(x), valid=jnp.asarray(valid))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(np.asarray(found)[valid], np.asarray(sound)[valid])
