"""The mixture of experts: a feed-forward layer of which each token uses a few parts."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.expert_matmul import by_expert
from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.packed_matmul import late_zero
from pantheon.engine.model.config import MoeConfig
from pantheon.engine.model.fixed_batch import in_fixed_batch
from pantheon.engine.model.gpu_products import gpu_expert_product
from pantheon.engine.model.linear import linear
from pantheon.engine.model.mlp import MlpParameters, silu_product, swiglu
from pantheon.engine.model.packed import RawMatrix, Stack, Weight, expert, values_of
from pantheon.engine.model.split import added_up, own_experts

_TILE: Final = 8
"""Tokens of one product with an expert's matrices: as many as XLA multiplies well on a CPU. The
size is fixed, so that a token's result does not depend on how many others chose the expert."""


class MoeParameters(NamedTuple):
    """Weights of one mixture of experts.

    Attributes:
        router: a row an expert.
        gate, up, down: those of `MlpParameters`, one of each an expert; over several dies those of
            the die's own experts.
        shared: the expert that sees every token; None where there is none.
        shared_gate: how much of it each token takes.
    """

    router: Float[Array, "experts hidden"]
    gate: Stack
    up: Stack
    down: Stack
    shared: MlpParameters | None = None
    shared_gate: Float[Array, " hidden"] | None = None


_Expert = tuple[Weight, Weight, Weight]
"""Gate, up and down of one expert, as they are held."""


_RawExperts = tuple[RawMatrix, RawMatrix, RawMatrix]
"""Gate, up and down of all experts."""


class _Groups(NamedTuple):
    """The (token, choice) pairs of a step, those of one expert next to each other.

    Attributes:
        pairs: numbers of the pairs, `token * used + choice`, by expert.
        starts, counts: where the pairs of each expert stand in `pairs`.
        experts: every expert, those with pairs first.
        active: how many have pairs.
    """

    pairs: Int[Array, " pairs"]
    starts: Int[Array, " experts"]
    counts: Int[Array, " experts"]
    experts: Int[Array, " experts"]
    active: Int[Array, ""]


def mixture(
    parameters: MoeParameters,
    config: MoeConfig,
    x: Float[Array, "batch time hidden"],
    valid: Bool[Array, "batch time"],
    *,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "batch time hidden"]:
    """Each token through the experts that the router likes best for it, by its weights.

    The weights are a softmax over all experts, made to sum to one over those that are used. On
    GPUs all pairs of tokens and experts are multiplied at once. Elsewhere, and with stacks that no
    kernel reads, the experts are walked through one after another, only those that a valid token
    uses, and the matrices of one expert at a time are float32.

    Args:
        implementation: see `expert_matmul.CHOSEN`. Where it has kernels, a row of a decode step is
            the same in batches of all sizes.
    """
    shared = None
    if parameters.shared is not None:
        shared = swiglu(parameters.shared, x, implementation=implementation)
    mixed = partial(_mixture, parameters, config, implementation)
    fixed = implementation.has_kernels and x.shape[1] == 1
    return in_fixed_batch(mixed, x, valid, shared, fixed=fixed)


def _mixture(
    parameters: MoeParameters,
    config: MoeConfig,
    implementation: Implementation,
    x: Float[Array, "batch time hidden"],
    valid: Bool[Array, "batch time"],
    shared: Float[Array, "batch time hidden"] | None,
) -> Float[Array, "batch time hidden"]:
    tokens = x.reshape(-1, x.shape[-1])
    scores = jax.nn.softmax(
        linear(tokens, parameters.router, implementation=implementation), axis=-1
    )
    weights, chosen = jax.lax.top_k(scores, config.used)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    # A token that is padding chooses an expert that does not exist.
    chosen = jnp.where(valid.reshape(-1, 1), chosen, config.experts)
    held = parameters.gate.shape[0]
    if held != config.experts:
        # Nor do those of other dies, here.
        chosen = own_experts(chosen, held)
    raw = _raw_stacks(parameters) if implementation.is_gpu else None
    if raw is not None:
        results = _at_once(raw, tokens, chosen, implementation, few=x.shape[1] == 1)
    else:
        results = _through_experts(parameters, tokens, _group(chosen, held), config.used)
    mixed = jnp.sum(results.reshape(*weights.shape, -1) * weights[..., None], axis=1)
    if held != config.experts:
        mixed = added_up(mixed)
    mixed = mixed.reshape(x.shape)
    if shared is None or parameters.shared_gate is None:
        return mixed
    share = jnp.sum(x * parameters.shared_gate, axis=-1, keepdims=True)
    return mixed + shared * jax.nn.sigmoid(share)


def _raw_stacks(parameters: MoeParameters) -> _RawExperts | None:
    """Gate, up and down where kernels for GPUs read all of them. XLA has no product of all pairs
    that does not multiply each pair by each expert."""
    gate, up, down = parameters.gate, parameters.up, parameters.down
    if isinstance(gate, RawMatrix) and isinstance(up, RawMatrix) and isinstance(down, RawMatrix):
        return gate, up, down
    return None


def _at_once(
    stacks: _RawExperts,
    tokens: Float[Array, "tokens hidden"],
    chosen: Int[Array, "tokens used"],
    implementation: Implementation,
    *,
    few: bool,
) -> Float[Array, "pairs hidden"]:
    """What `_through_experts` gives, by products of all pairs with their experts.

    Args:
        few: see `gpu_expert_product`.
    """
    gate, up, down = stacks
    pairs = by_expert(chosen, gate.shape[0])
    multiply = partial(gpu_expert_product, pairs=pairs, implementation=implementation, few=few)
    of_token = pairs.order // chosen.shape[1]
    inner = silu_product(
        multiply(tokens, gate, sources=of_token),
        multiply(tokens, up, sources=of_token),
        implementation=implementation,
    )
    in_order = jnp.arange(pairs.order.shape[0], dtype=jnp.int32)
    made = multiply(inner, down, sources=in_order)
    return jnp.zeros_like(made).at[pairs.order].set(made)


def _group(chosen: Int[Array, "tokens used"], experts: int) -> _Groups:
    flat = chosen.reshape(-1)
    counts = jnp.zeros(experts, jnp.int32).at[flat].add(1, mode="drop")
    return _Groups(
        pairs=jnp.argsort(flat, stable=True),
        starts=jnp.cumsum(counts) - counts,
        counts=counts,
        experts=jnp.argsort(counts == 0, stable=True),
        active=jnp.sum(counts > 0),
    )


def _through_experts(
    parameters: MoeParameters,
    tokens: Float[Array, "tokens hidden"],
    groups: _Groups,
    used: int,
) -> Float[Array, "pairs hidden"]:
    """What the chosen expert makes of each pair's token; zeros for pairs without an expert."""
    pairs = groups.pairs.shape[0]
    stacks = (parameters.gate, parameters.up, parameters.down)

    def taken(place: Int[Array, ""] | int) -> _Expert:
        index = groups.experts[jnp.minimum(place, groups.experts.shape[0] - 1)]
        gate, up, down = (expert(stack, index) for stack in stacks)
        return gate, up, down

    def add_expert(
        place: Int[Array, ""], carried: tuple[_Expert, Float[Array, "pairs hidden"]]
    ) -> tuple[_Expert, Float[Array, "pairs hidden"]]:
        packed, results = carried
        index = groups.experts[place]
        count, start = groups.counts[index], groups.starts[index]
        own = MlpParameters(*map(values_of, packed))

        def add_tile(
            tile: Int[Array, ""], results: Float[Array, "pairs hidden"]
        ) -> Float[Array, "pairs hidden"]:
            within = tile * _TILE + jnp.arange(_TILE)
            pair = groups.pairs[jnp.minimum(start + within, pairs - 1)]
            made = swiglu(own, tokens[pair // used][None])[0]
            # What fills the last tile up goes nowhere.
            return results.at[jnp.where(within < count, pair, pairs)].set(made, mode="drop")

        results = jax.lax.fori_loop(0, (count + _TILE - 1) // _TILE, add_tile, results)
        return taken(place + 1), results

    # Not a constant, which XLA would make for every layer at the start of the step.
    nothing = jnp.broadcast_to(late_zero(tokens).astype(tokens.dtype), (pairs, tokens.shape[1]))
    # The matrices are carried from the pass before, as `linear` does it: taken where they are
    # used, they are unpacked three to five times slower.
    results: jax.Array = jax.lax.fori_loop(0, groups.active, add_expert, (taken(0), nothing))[1]
    return results
