"""Layers by name in what XLA says of a step (residency/thunks.py), traced once all the same."""

import re

import jax
import jax.numpy as jnp

from pantheon.engine.model.kv_cache import place
from tests.engine.model.forward import PAGE_SIZE, PAGES, Model, empty_cache, open_model
from tests.golden import golden_file


def _lowered(model: Model) -> jax.stages.Lowered:
    architecture, config, parameters = model
    table = jnp.arange(PAGES, dtype=jnp.int32)[None]
    placement = place(
        jnp.zeros((1, 1), jnp.int32),
        jnp.ones((1, 1), bool),
        table,
        jnp.ones(1, jnp.int32),
        jnp.zeros(1, jnp.int32),
        page_size=PAGE_SIZE,
        total_pages=PAGES,
    )

    def step(cache: object) -> object:
        tokens = jnp.zeros((1, 1), jnp.int32)
        return architecture.hidden_states(parameters, config, tokens, placement, cache)  # type: ignore[arg-type]

    return jax.jit(step).lower(empty_cache(model))


def test_every_layer_is_named_in_the_optimised_program() -> None:
    model = open_model(golden_file("models/qwen3-f32.gguf"), native=False)
    lowered = _lowered(model)
    text = lowered.compile().as_text()
    assert text is not None
    named = {int(index) for index in re.findall(r'op_name="[^"]*/layer_(\d+)/', text)}
    assert named == set(range(model[1].layers))
    # The last one is another: nobody takes its sum.
    assert lowered.as_text().count("call @_decoder_layer(") == model[1].layers - 1
