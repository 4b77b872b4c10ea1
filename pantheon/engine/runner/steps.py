"""The steps that are compiled: pure functions from arrays to arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.model import (
    Architecture,
    Implementation,
    ModelCache,
    ModelConfig,
    Parameters,
    best_tokens,
)
from pantheon.engine.model.kv_cache import page_count, place
from pantheon.engine.model.page_memory import in_memory_of, on_die
from pantheon.engine.runner.adjustment import AdjustmentBatch, RowHistory, adjust
from pantheon.engine.runner.logprobs import Logprobs, logprobs
from pantheon.engine.runner.sampling import SamplingBatch, sample


class DeviceState(NamedTuple):
    """What a step takes over from the one before. Donated to every step.

    Attributes:
        cache: keys, values and recurrent states of every sequence.
        last_tokens: the newest token of each row; one entry more than there are rows, which
            takes what padding writes. It stays on the device, so that a step can follow
            another whose tokens the host has not read yet.
        history: what penalties and biases need of each row.
    """

    cache: ModelCache
    last_tokens: Int[Array, " rows_and_padding"]
    history: RowHistory


class ChoiceBatch(NamedTuple):
    """How a step chooses its tokens.

    Attributes:
        adjusted: whether `adjustment` or the bias of a row changes any logit.
        logprobs_wanted: whether any row wants log-probabilities.
    """

    sampling: SamplingBatch
    adjustment: AdjustmentBatch
    adjusted: Bool[Array, ""]
    logprobs_wanted: Bool[Array, ""]


class FedBatch(NamedTuple):
    """What the host knows and the device does not, after rows had drafts in the step before.

    Attributes:
        tokens: token that an entry is fed; -1 for the newest token of its row.
        taken_rows: rows of tokens that were taken of that step, which count as sampled from here
            on; the last entry of `last_tokens` for padding.
        taken_tokens: those tokens.
    """

    tokens: Int[Array, " batch"]
    taken_rows: Int[Array, " largest_batch"]
    taken_tokens: Int[Array, " largest_batch"]


class Chosen(NamedTuple):
    """What a step chose, a row an entry.

    Attributes:
        finite: whether the row's scores are numbers; its token means nothing where they are not.
    """

    tokens: Int[Array, " batch"]
    logprobs: Logprobs
    finite: Bool[Array, " batch"]


def choose(
    logits: Float[Array, "batch vocabulary"],
    history: Callable[[], RowHistory],
    choice: ChoiceBatch,
    *,
    implementation: Implementation,
) -> Chosen:
    """Choose each row's token. `history` looks up the rows' own, where anything changes logits.

    Args:
        implementation: see `best_tokens`.
    """

    def adjusted() -> Float[Array, "batch vocabulary"]:
        own = history()
        return adjust(logits, own.counts, own.bias, choice.adjustment)

    def chosen() -> Int[Array, " batch"]:
        scores: jax.Array = jax.lax.cond(choice.adjusted, adjusted, lambda: logits)
        return sample(scores, choice.sampling)

    # Greedy rows that nothing adjusts need one pass over the vocabulary, not several.
    plain = ~choice.adjusted & jnp.all(choice.sampling.temperature <= 0)
    best, finite = best_tokens(logits, implementation=implementation)
    tokens = jax.lax.cond(plain, lambda: best, chosen)
    return Chosen(tokens, logprobs(logits, tokens, choice.logprobs_wanted), finite)


def step_of_model(
    architecture: Architecture, config: ModelConfig, page_size: int, step: Callable[..., Any]
) -> Callable[..., Any]:
    """A step of one model, with the state as its first argument and the parameters as the next."""
    bound = partial(step, architecture, config, page_size)

    def of_model(state: DeviceState, parameters: Parameters, *arguments: Any) -> Any:
        return bound(parameters, state, *arguments)

    return of_model


def start_row_step(
    state: DeviceState, row: Int[Array, ""], bias: Float[Array, " vocabulary"]
) -> DeviceState:
    """Give a row the bias of the sequence that starts in it, of which nothing counts yet."""
    history = state.history
    return state._replace(
        history=history._replace(
            counts=history.counts.at[row].set(0), bias=history.bias.at[row].set(bias)
        )
    )


def prefill_step(
    architecture: Architecture,
    config: ModelConfig,
    page_size: int,
    parameters: Parameters,
    state: DeviceState,
    tokens: Int[Array, " time"],
    start: Int[Array, ""],
    skip: Int[Array, ""],
    count: Int[Array, ""],
    block_table: Int[Array, " blocks"],
    row: Int[Array, ""],
) -> tuple[Int[Array, ""], DeviceState]:
    """Prefill one cell of the grid: nothing is asked of it but what it leaves in the cache.

    Each position of a sequence stands at the same place of the step wherever its prefill begins
    or ends, so that its keys and values do not depend on that.

    Args:
        tokens: what stands in the cell; padding before `skip` and from `count` on.
        start: position of the cell's first place.
        skip: places before the first token to compute: the pages hold them already.
        count: places up to the last token to compute, that one included.
        row: the sequence's row.

    Returns:
        A number that is there when the step is done, and the state.
    """
    index = jnp.arange(tokens.shape[0], dtype=jnp.int32)
    placement = place(
        (start + index)[None],
        ((skip <= index) & (index < count))[None],
        block_table[None],
        (start + count)[None],
        row[None],
        jnp.stack([count, count]),
        page_size=page_size,
        total_pages=page_count(state.cache.kv),
    )
    _, cache = architecture.hidden_states(parameters, config, tokens[None], placement, state.cache)
    return start + count, state._replace(cache=cache)


def decode_step(
    architecture: Architecture,
    config: ModelConfig,
    page_size: int,
    parameters: Parameters,
    state: DeviceState,
    rows: Int[Array, " batch"],
    positions: Int[Array, " batch"],
    block_tables: Int[Array, "batch blocks"],
    fed: FedBatch,
    choice: ChoiceBatch,
) -> tuple[Chosen, DeviceState]:
    """Feed each row's newest token and sample the next.

    A row may have several entries at positions that follow each other: its newest token, then
    drafts of what comes next. Each samples what a step of its own would, were the drafts before
    it right. Nothing of them is counted or kept as newest here: the host says what it took.

    Args:
        rows: the row of each entry; the last entry of `last_tokens` for padding.
        positions: position of the token that is fed.
    """
    padding = state.last_tokens.shape[0] - 1
    valid = rows < padding
    placement = place(
        positions[:, None],
        valid[:, None],
        block_tables,
        jnp.where(valid, positions + 1, 0),
        rows,
        page_size=page_size,
        total_pages=page_count(state.cache.kv),
    )
    tokens = jnp.where(fed.tokens < 0, state.last_tokens[rows], fed.tokens)
    hidden, cache = architecture.hidden_states(
        parameters, config, tokens[:, None], placement, state.cache
    )
    history = state.history
    logits = architecture.logits(parameters, config, hidden[:, 0])
    counts = history.counts.at[fed.taken_rows, fed.taken_tokens].add(1)
    same = rows[:, None] == rows[None, :]
    before = same & (positions[None, :] < positions[:, None])
    chosen = choose(
        logits,
        lambda: RowHistory(_with_drafts(counts[rows], tokens, before), history.bias[rows]),
        choice,
        implementation=config.implementation,
    )
    alone = jnp.where(jnp.sum(same, axis=1) == 1, rows, padding)
    following = DeviceState(
        cache,
        state.last_tokens.at[alone].set(chosen.tokens),
        history._replace(counts=counts.at[alone, chosen.tokens].add(1)),
    )
    return chosen, following


def _with_drafts(
    counts: Int[Array, "batch vocabulary"],
    tokens: Int[Array, " batch"],
    before: Bool[Array, "batch batch"],
) -> Int[Array, "batch vocabulary"]:
    """Counts of each entry with the drafts that it has seen, its own included.

    Args:
        before: [i, j] tells whether entry j stands before entry i in the same row.
    """
    entries = jnp.arange(tokens.shape[0], dtype=jnp.int32)
    is_draft = jnp.any(before, axis=1)
    seen = (before | (entries[:, None] == entries[None, :])) & is_draft[None, :]
    return counts.at[entries[:, None], tokens[None, :]].add(seen.astype(jnp.int32))


def copy_page_step(
    state: DeviceState, source: Int[Array, ""], target: Int[Array, ""]
) -> DeviceState:
    """Copy one page to another in every layer."""

    def copy(held: Float[Array, "pages ..."]) -> Float[Array, "pages ..."]:
        pages = on_die(held)
        return in_memory_of(held, pages.at[target].set(pages[source]))

    return state._replace(cache=state.cache._replace(kv=jax.tree.map(copy, state.cache.kv)))


def read_page_step(state: DeviceState, page: Int[Array, ""]) -> tuple[Float[Array, "*_shape"], ...]:
    """The keys and the values of one page, array by array. The state is not donated."""
    return tuple(on_die(pages)[page] for pages in jax.tree.leaves(state.cache.kv))


def write_page_step(
    state: DeviceState, page: Int[Array, ""], content: tuple[Float[Array, "*_shape"], ...]
) -> DeviceState:
    """Write one page, as `read_page_step` gives it."""
    leaves, structure = jax.tree.flatten(state.cache.kv)
    written = [
        in_memory_of(held, on_die(held).at[page].set(new))
        for held, new in zip(leaves, content, strict=True)
    ]
    kv = jax.tree.unflatten(structure, written)
    return state._replace(cache=state.cache._replace(kv=kv))


def copy_state_step(
    state: DeviceState, source: Int[Array, ""], target: Int[Array, ""], clear: Bool[Array, ""]
) -> DeviceState:
    """Copy the recurrent states of one slot to another, or clear the other."""

    def copy(slots: Float[Array, "slots ..."]) -> Float[Array, "slots ..."]:
        return slots.at[target].set(jnp.where(clear, 0, slots[source]))

    recurrent = jax.tree.map(copy, state.cache.recurrent)
    return state._replace(cache=state.cache._replace(recurrent=recurrent))


def read_state_step(
    state: DeviceState, slot: Int[Array, ""]
) -> tuple[Float[Array, "*_shape"], ...]:
    """The recurrent states of one slot, layer by layer. The state is not donated."""
    return tuple(slots[slot] for slots in state.cache.recurrent)


def write_state_step(
    state: DeviceState, slot: Int[Array, ""], content: tuple[Float[Array, "*_shape"], ...]
) -> DeviceState:
    """Write the recurrent states of one slot, as `read_state_step` gives them."""
    recurrent = tuple(
        slots.at[slot].set(new) for slots, new in zip(state.cache.recurrent, content, strict=True)
    )
    return state._replace(cache=state.cache._replace(recurrent=recurrent))
