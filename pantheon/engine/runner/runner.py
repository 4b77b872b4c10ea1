"""Owns a model's device arrays and runs its compiled steps."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from pantheon.engine.batches import holding
from pantheon.engine.model import (
    Architecture,
    ModelConfig,
    Parameters,
    Shards,
    computes_rows_alike,
    stacked,
    stop_taking,
)
from pantheon.engine.model.kv_cache import KVCache
from pantheon.engine.model.read import bytes_by_device
from pantheon.engine.programs import ProgramStore
from pantheon.engine.residency import AttentionLayers, GraphSlots
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.adjustment import bias_vector
from pantheon.engine.runner.arguments import StepArguments
from pantheon.engine.runner.attention_pages import HOST_MEMORY, AttentionPages
from pantheon.engine.runner.buckets import decode_batches
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.empty_state import planned_by_device, zeroed_state
from pantheon.engine.runner.graphs import Graphs, graph_slots
from pantheon.engine.runner.host_layout import HostLayout
from pantheon.engine.runner.model_steps import ModelSteps, decode_name
from pantheon.engine.runner.on_dies import OnDies
from pantheon.engine.runner.sampled import Prefilled, Sampled
from pantheon.engine.runner.step_programs import StepPrograms
from pantheon.engine.runner.steps import DeviceState
from pantheon.engine.token_mask import TokenMask

_log: Final = logging.getLogger(__name__)


class Runner:
    """The device side of one model. Used by one thread.

    It owns the parameters, the KV arrays and the newest token of each row; the caller owns
    which page belongs to whom.
    """

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        parameters: Parameters,
        capacity: Capacity,
        *,
        batches: tuple[int, ...] | None = None,
        shards: Shards | None = None,
        graphs: Graphs | None = None,
        batched: bool = True,
        pages: AttentionPages | None = None,
    ) -> None:
        """Allocate the KV arrays. `compile` must run before the first step.

        Args:
            batches: entries that decode steps are compiled for, rising; None for all that pay.
            shards: the dies on which the parameters are; None for the default device.
            graphs: how decode steps are captured; None where there are no graphs.
            batched: whether the batch scheduler runs; else there is the one-user path.
            pages: allocates the pages of a model that runs flash kernels on one die; None
                allocates them with all else.
        """
        self._graphs = graphs
        self._batched = batched
        self._config = config
        self._capacity = capacity
        self._parameters = stacked(parameters, config)
        self._architecture = architecture
        self._pages = pages
        self.attention = (
            AttentionLayers(
                config.attention_layers, flash=config.implementation.is_gpu, clock=time.monotonic
            )
            if pages is None
            else pages.layers
        )
        """Where the attention layers run."""
        self._on_dies: OnDies | None = None
        if shards is not None:
            held = shards.plan.held(config)
            shapes = jax.eval_shape(lambda: self._zeroed_state(held, None))
            self._on_dies = OnDies(shards, shapes)
        self._weight_bytes = bytes_by_device(self._parameters)
        self._state = self._empty_state()
        alike = computes_rows_alike(config, parameters)
        self.batches = batches or decode_batches(capacity.rows, alike=alike)
        """Entries of a decode step: one takes as long as the next of these sizes, rising."""
        put = jax.device_put if self._on_dies is None else self._on_dies.put
        self._arguments = StepArguments(config, capacity, self.batches, put)
        self._host = HostLayout(architecture, config, capacity, self._on_dies)
        self._listed = ModelSteps(
            architecture, config, capacity, self._on_dies, self._arguments, self._host
        )
        self._steps = StepPrograms("", None)
        self._captured_before = (0, 0)
        self._store: ProgramStore | None = None
        self._compiled_for: list[bool] | None = None

    @property
    def traces(self) -> int:
        """How often a step was traced. It must not grow after `compile`, but where pages came to
        the die or left it."""
        return self._listed.traces

    @property
    def held_bytes(self) -> int:
        """Bytes of all device arrays held. For any thread: a step may be taking the state over."""
        return sum(self.held_by_device().values())

    def held_by_device(self) -> Counter[Any]:
        """The same for each device, those of other hosts too."""
        # There is no state after a reset that failed, nor for a moment in one.
        state = getattr(self, "_state", None)
        held = Counter(self._weight_bytes)
        return held if state is None else held + planned_by_device(state)

    def reset(self) -> None:
        """Start over with an empty cache, after a step failed and left its buffers undefined."""
        # The old arrays go before the new ones come: memory may not hold both.
        self._stop_taking()
        del self._state
        self._state = self._empty_state()
        self._compile_if_moved()

    def bring_back(self) -> None:
        """Try to bring pages from host memory to the die. While no sequence runs: where it
        succeeds, the steps are compiled anew."""
        if self._pages is None:
            return
        cache = self._state.cache
        kv = self._pages.bring_back(cache.kv)
        if kv is not None:
            self._state = self._state._replace(cache=cache._replace(kv=kv))
            self._compile_if_moved()

    @property
    def step_limit_s(self) -> float | None:
        """Seconds after which a step that has begun counts as one that never ends; None where each
        one ends."""
        return None

    def give_up(self) -> None:
        """Whoever used this stands in a step that does not end; `close` must not wait for it."""

    def close(self) -> None:
        """Give every device array back now, whoever still refers to this object. Idempotent."""
        self._stop_taking()
        # There is no state after a reset that failed.
        for array in jax.tree.leaves((self._parameters, getattr(self, "_state", ()))):
            array.delete()

    def _stop_taking(self) -> None:
        """Before the cache goes: its memory may still be taken in the background."""
        if self._config.native:
            stop_taking()

    def _empty_state(self) -> DeviceState:
        kv = None if self._pages is None else self._pages.allocate()
        if self._on_dies is not None:
            return self._on_dies.empty_state(kv)
        return self._zeroed_state(self._config, kv)

    def _zeroed_state(self, config: ModelConfig, kv: KVCache | None) -> DeviceState:
        return zeroed_state(
            self._architecture, config, self._capacity, kv, stacked=self._parameters.is_stacked
        )

    def compile(self, progress: Callable[[str], None], store: ProgramStore | None = None) -> None:
        """Compile every step, or load it from where an earlier start left it.

        Nothing is traced afterwards, unless pages come to the die or leave it.

        Args:
            store: programs that outlive the process; None has none.
        """
        self._store = store
        elsewhere = None if self._on_dies is None else self._on_dies.everywhere
        steps = StepPrograms(self._listed.scope, store, elsewhere=elsewhere, graphs=self._graphs)
        steps.compile(self._listed.all(self._state, self._parameters, self.batches), progress)
        # Only now: where that failed, it is to be done when the runner starts over.
        past, replaced = self._captured_before, self._steps.captured.values()
        self._captured_before = (
            past[0] + sum(step.captures for step in replaced),
            past[1] + sum(step.failures for step in replaced),
        )
        self._steps, self._compiled_for = steps, self._memory_kinds()

    def _compile_if_moved(self) -> None:
        """A compiled step knows in which memory its arguments are."""
        if self._compiled_for not in (None, self._memory_kinds()):
            self.compile(lambda message: _log.info("after pages moved: %s", message), self._store)

    def _memory_kinds(self) -> list[bool]:
        """Of each array of the KV cache, whether it is in host memory."""
        return [_on_host(array) for array in jax.tree.leaves(self._state.cache.kv)]

    @property
    def program_keys(self) -> list[str]:
        """What `compile` used of its store, in the order of need."""
        return self._steps.keys

    @property
    def graphs(self) -> GraphSlots | None:
        """Which layers of the decode steps run as graphs; None where there are none."""
        if self._graphs is None:
            return None
        return graph_slots(
            self._config,
            self._steps.captured.values(),
            batched=self._batched,
            earlier=self._captured_before,
        )

    def temporary_bytes(self, step: str) -> int:
        """Bytes that a compiled step takes beside its arguments and results, as XLA plans it.

        Raises:
            ValueError: the backend does not say.
        """
        analysis = self._steps.compiled(step).memory_analysis()
        if analysis is None:
            raise ValueError(f"{jax.default_backend()} does not say what memory a step takes")
        return int(analysis.temp_size_in_bytes)

    def start_row(self, row: int, sampling: RowSampling) -> None:
        """Prepare a row for a new sequence. Before the first step of the sequence."""
        bias = bias_vector(sampling.logit_bias, self._config.vocabulary)
        self._state = self._steps["start row"](self._state, np.int32(row), bias)

    def copy_page(self, source: int, target: int) -> None:
        """Copy one page to another in every layer."""
        self._state = self._steps["copy page"](self._state, np.int32(source), np.int32(target))

    def load_state(self, row: int, slot: int | None) -> None:
        """Set a row's recurrent states to a checkpoint's; None to those before any token."""
        if self._state.cache.recurrent:
            self._copy_state(0 if slot is None else self._checkpoint(slot), row, slot is None)

    def save_state(self, row: int, slot: int) -> None:
        """Copy a row's recurrent states to a checkpoint."""
        self._copy_state(row, self._checkpoint(slot), False)

    def _checkpoint(self, slot: int) -> int:
        """Where the states of a checkpoint stand: after the rows and the padding."""
        return self._capacity.rows + 1 + slot

    def _copy_state(self, source: int, target: int, clear: bool) -> None:
        self._state = self._steps["copy state"](
            self._state, np.int32(source), np.int32(target), np.bool_(clear)
        )

    def read_page(self, page: int) -> list[np.ndarray]:
        """Copy one page to the host: keys and values of each layer, in order.

        Returns:
            Arrays of (kv_heads, page_size, head_dim).
        """
        return self._host.page(self.dispatch_read_page(page))

    def dispatch_read_page(self, page: int) -> tuple[jax.Array, ...]:
        """The same on its way, in the layout of the device."""
        read: tuple[jax.Array, ...] = self._steps["read page"](self._state, np.int32(page))
        return read

    def empty_page(self) -> list[np.ndarray]:
        """A page of zeros, as `read_page` gives it."""
        return self._host.empty_page()

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of one page, as `read_page` gives it."""
        arrays = self._host.page_arrays(content, self._state)
        self._state = self._steps["write page"](self._state, np.int32(page), arrays)

    def read_state(self, slot: int) -> list[np.ndarray]:
        """Copy the recurrent state of a checkpoint to the host, layer by layer."""
        return self._host.state(self.dispatch_read_state(slot))

    def dispatch_read_state(self, slot: int) -> tuple[jax.Array, ...]:
        """The same on its way, in the layout of the device."""
        number = np.int32(self._checkpoint(slot))
        read: tuple[jax.Array, ...] = self._steps["read state"](self._state, number)
        return read

    def empty_recurrent_state(self) -> list[np.ndarray]:
        """A state of zeros, as `read_state` gives it; of nothing without recurrent layers."""
        return self._host.empty_state()

    def write_state(self, slot: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of a checkpoint, as `read_state` gives it."""
        number = np.int32(self._checkpoint(slot))
        arrays = self._host.state_arrays(content)
        self._state = self._steps["write state"](self._state, number, arrays)

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
    ) -> Prefilled:
        """Dispatch the prefill of one chunk.

        Args:
            tokens: at least one, at positions `start` and on, up to the end of a grid cell
                of `PREFILL_CHUNK` positions.
            pages: the sequence's pages in order; they hold `start + len(tokens)` tokens.
        """
        arguments = self._arguments.prefill(tokens, start, pages, row)
        done, self._state = self._steps["prefill"](self._state, self._parameters, *arguments)
        return Prefilled(done)

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None] | None = None,
        fed: Sequence[int | None] | None = None,
        taken: Sequence[tuple[int, int]] = (),
    ) -> Sampled:
        """Dispatch one decode step; see `StepRunner.decode`.

        Args:
            masks: None allows all tokens everywhere.
            fed: None feeds every row its newest token.
        """
        masks = [None] * len(rows) if masks is None else masks
        fed = [None] * len(rows) if fed is None else fed
        arguments = self._arguments.decode(rows, positions, pages, sampling, masks, fed, taken)
        step = self._steps[decode_name(holding(len(rows), self.batches))]
        chosen, self._state = step(self._state, self._parameters, *arguments)
        return Sampled(chosen, sampling)


def _on_host(array: jax.Array) -> bool:
    return array.sharding.memory_kind == HOST_MEMORY
