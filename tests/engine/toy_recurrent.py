"""A model with a recurrent layer: a llama file whose hidden states are mixed with their past."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.model import Architecture, ModelCache, ModelConfig, Parameters
from pantheon.engine.model.kv_cache import Placement
from tests.engine.model.forward import open_model


def toy_recurrent(path: Path) -> tuple[Architecture, ModelConfig, Parameters]:
    """The file's model with a decaying sum of all hidden states added to each."""
    llama, config, parameters = open_model(path)

    def hidden_states(
        parameters: Parameters,
        config: ModelConfig,
        tokens: Int[Array, "batch time"],
        placement: Placement,
        cache: ModelCache,
    ) -> tuple[Float[Array, "batch time hidden"], ModelCache]:
        (states,) = cache.recurrent
        attending = cache._replace(recurrent=())
        # Every token leaves something in the state.
        everywhere = placement._replace(wanted=placement.live)
        hidden, cache = llama.hidden_states(parameters, config, tokens, everywhere, attending)
        mixed, after = jax.vmap(_scan)(states[placement.slots], hidden, placement.valid)
        states = states.at[placement.slots].set(after)
        return hidden + mixed, cache._replace(recurrent=(states,))

    return (
        replace(
            llama,
            name="toy",
            hidden_states=hidden_states,
            recurrent_shapes=lambda config: ((config.hidden,),),
            snapshots=False,
        ),
        config,
        parameters,
    )


def _scan(
    state: Float[Array, " hidden"],
    hidden: Float[Array, "time hidden"],
    valid: Bool[Array, " time"],
) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
    def step(
        state: Float[Array, " hidden"], at: tuple[Float[Array, " hidden"], Bool[Array, ""]]
    ) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        token, real = at
        state = jnp.where(real, 0.97 * state + 0.3 * jnp.tanh(token), state)
        return state, state

    after, mixed = jax.lax.scan(step, state, (hidden, valid))
    return mixed, after
