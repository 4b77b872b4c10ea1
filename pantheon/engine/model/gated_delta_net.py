"""The gated delta net: a layer with a recurrent state instead of attention."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from pantheon.engine.kernels.causal_conv import causal_conv
from pantheon.engine.kernels.gated_delta_rule import gated_delta_rule
from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.packed_matmul import late_zero
from pantheon.engine.model.config import DeltaNetConfig, ModelConfig
from pantheon.engine.model.fixed_batch import in_fixed_batch
from pantheon.engine.model.kv_cache import Placement
from pantheon.engine.model.linear import linear, linears
from pantheon.engine.model.norms import l2_norm, rms_norm
from pantheon.engine.model.packed import Weight

_KEY_EPSILON = 1e-6
"""Of the norms of queries and keys; the architectures have no key for it."""


class DeltaNetParameters(NamedTuple):
    """Weights of one gated delta net.

    Attributes:
        qkv: rows of all queries, then all keys, then all values.
        gate: of the output, a row a value dimension.
        strength, decay: a row for each value head.
        convolution: the taps of each channel of `qkv`, oldest first.
        decay_bias, decay_rate: `log_decay = decay_rate * softplus(decay + decay_bias)`.
        norm: of each head's output.
    """

    qkv: Weight
    gate: Weight
    strength: Weight
    decay: Weight
    convolution: Float[Array, "channels taps"]
    decay_bias: Float[Array, " value_heads"]
    decay_rate: Float[Array, " value_heads"]
    norm: Float[Array, " value_dim"]
    output: Weight


class DeltaNetCache(NamedTuple):
    """What the sequences of one layer leave between steps; see `RecurrentStates`."""

    inputs: Float[Array, "slots taps_before channels"]
    states: Float[Array, "slots value_heads key_dim value_dim"]


def gated_delta_net(
    parameters: DeltaNetParameters,
    config: ModelConfig,
    x: Float[Array, "batch time hidden"],
    cache: DeltaNetCache,
    placement: Placement,
) -> tuple[Float[Array, "batch time hidden"], DeltaNetCache]:
    """Run a step's tokens through the state of their sequences (Yang et al., 2024)."""
    shape = config.delta_net
    assert shape is not None, "a recurrent layer has a shape"
    batch, time, _ = x.shape
    implementation = config.implementation
    valid = placement.valid
    # XLA would read the states of every layer at the start of the step.
    slots = placement.slots + late_zero(x[0])
    qkv, gate, strength, decay = linears(
        x,
        (parameters.qkv, parameters.gate, parameters.strength, parameters.decay),
        placement.live,
        implementation=implementation,
    )
    output, inputs, states = in_fixed_batch(
        partial(_recurrence, parameters, shape, config.rms_epsilon, implementation),
        qkv,
        gate,
        strength,
        decay,
        valid,
        cache.inputs[slots],
        cache.states[slots],
        fixed=implementation.has_kernels and time == 1,
    )
    following = DeltaNetCache(
        cache.inputs.at[slots].set(inputs), cache.states.at[slots].set(states)
    )
    output = output.reshape(batch, time, -1)
    made = linear(output, parameters.output, placement.live, implementation=implementation)
    return made, following


def _recurrence(
    parameters: DeltaNetParameters,
    shape: DeltaNetConfig,
    epsilon: float,
    implementation: Implementation,
    qkv: Float[Array, "batch time channels"],
    gate: Float[Array, "batch time values"],
    strength: Float[Array, "batch time value_heads"],
    decay: Float[Array, "batch time value_heads"],
    valid: Bool[Array, "batch time"],
    inputs: Float[Array, "batch taps_before channels"],
    states: Float[Array, "batch value_heads key_dim value_dim"],
) -> tuple[
    Float[Array, "batch time value_heads value_dim"],
    Float[Array, "batch taps_before channels"],
    Float[Array, "batch value_heads key_dim value_dim"],
]:
    """Between the products: outputs of the heads, and what the sequences leave."""
    mixed, inputs = causal_conv(
        qkv, parameters.convolution, inputs, valid, implementation=implementation
    )
    query, key, value = _split(jax.nn.silu(mixed), shape)
    query = l2_norm(query, _KEY_EPSILON) * shape.key_dim**-0.5
    key = l2_norm(key, _KEY_EPSILON)
    output, states = gated_delta_rule(
        _for_value_heads(query, shape),
        _for_value_heads(key, shape),
        value,
        parameters.decay_rate * jax.nn.softplus(decay + parameters.decay_bias),
        jax.nn.sigmoid(strength),
        valid,
        states,
        implementation=implementation,
    )
    output = rms_norm(output, parameters.norm, epsilon)
    return output * jax.nn.silu(gate.reshape(output.shape)), inputs, states


def _split(
    channels: Float[Array, "batch time channels"], shape: DeltaNetConfig
) -> tuple[
    Float[Array, "batch time key_heads key_dim"],
    Float[Array, "batch time key_heads key_dim"],
    Float[Array, "batch time value_heads value_dim"],
]:
    keys = shape.key_heads * shape.key_dim
    query, key, value = jnp.split(channels, (keys, 2 * keys), axis=-1)
    leading = channels.shape[:2]
    return (
        query.reshape(*leading, shape.key_heads, shape.key_dim),
        key.reshape(*leading, shape.key_heads, shape.key_dim),
        value.reshape(*leading, shape.value_heads, shape.value_dim),
    )


def _for_value_heads(
    x: Float[Array, "batch time key_heads key_dim"], shape: DeltaNetConfig
) -> Float[Array, "batch time value_heads key_dim"]:
    """What each value head reads of the key heads."""
    times = shape.value_heads // shape.key_heads
    if shape.tiled:
        return jnp.tile(x, (1, 1, times, 1))
    return jnp.repeat(x, times, axis=2)
