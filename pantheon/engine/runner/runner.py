"""Owns a model's device arrays and runs its compiled steps."""

from __future__ import annotations

import functools
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
from pantheon.engine.residency import (
    AttentionLayers,
    CapturedLayers,
    Executable,
    GraphSlots,
    LayerKind,
)
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.adjustment import bias_vector
from pantheon.engine.runner.arguments import StepArguments
from pantheon.engine.runner.attention_pages import HOST_MEMORY, AttentionPages
from pantheon.engine.runner.buckets import decode_batches
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.empty_state import planned_by_device, zeroed_state
from pantheon.engine.runner.graphs import CapturedProgram, Graphs
from pantheon.engine.runner.on_dies import Gives, OnDies
from pantheon.engine.runner.sampled import Prefilled, Sampled
from pantheon.engine.runner.step_programs import Step, StepPrograms
from pantheon.engine.runner.steps import (
    DeviceState,
    copy_page_step,
    copy_state_step,
    decode_step,
    prefill_step,
    read_page_step,
    read_state_step,
    start_row_step,
    step_of_model,
    write_page_step,
    write_state_step,
)
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
        self.traces = 0
        """How often a step was traced. It must not grow after `compile`, but where pages came to
        the die or left it."""
        alike = computes_rows_alike(config, parameters)
        self.batches = batches or decode_batches(capacity.rows, alike=alike)
        """Entries of a decode step: one takes as long as the next of these sizes, rising."""
        put = jax.device_put if self._on_dies is None else self._on_dies.put
        self._arguments = StepArguments(config, capacity, self.batches, put)
        self._steps = StepPrograms("", None)
        self._store: ProgramStore | None = None
        self._compiled_for: list[bool] | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of all device arrays held. For any thread: a step may be taking the state over."""
        return sum(self.held_by_device().values())

    def held_by_device(self) -> Counter[Any]:
        """The same for each device of this process."""
        return self._weight_bytes + planned_by_device(self._state)

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
        self._compiled_for = self._memory_kinds()
        prefill = self._arguments.prefill([0], 0, (0,), 0)
        on_dies = self._on_dies
        number, page = np.int32(0), self._page_arrays(self.empty_page())
        bias = bias_vector((), self._config.vocabulary)
        of_model, state = self._of_model, self._state

        decoding = {_decode_name(batch) for batch in self.batches}

        def step(
            name: str,
            function: Callable[..., Any],
            *arguments: Any,
            donates: bool = True,
            gives: Gives = Gives.STATE,
        ) -> Step:
            first = name in ("prefill", _decode_name(self.batches[0]), "start row")
            return Step(
                name,
                self._counted(function),
                donates,
                (state, *arguments),
                needed_first=first,
                replayed=name in decoding,
                results=None if on_dies is None else on_dies.results(gives, state),
            )

        steps = [
            step(
                "prefill",
                of_model(prefill_step),
                self._parameters,
                *prefill,
                gives=Gives.BOTH,
            ),
            step("start row", start_row_step, number, bias),
            *(
                step(
                    _decode_name(batch),
                    of_model(decode_step),
                    *self._padding(batch),
                    gives=Gives.BOTH,
                )
                for batch in self.batches
            ),
            step("copy page", copy_page_step, number, number),
            step("read page", read_page_step, number, donates=False, gives=Gives.VALUE),
            step("write page", write_page_step, number, page),
        ]
        if self._state.cache.recurrent:
            recurrent = self._state_arrays(self.empty_recurrent_state())
            steps += [
                step("copy state", copy_state_step, number, number, np.bool_(False)),
                step("read state", read_state_step, number, donates=False, gives=Gives.VALUE),
                step("write state", write_state_step, number, recurrent),
            ]
        devices = [] if on_dies is None else on_dies.devices
        scope = f"{self._architecture.name} {self._config} {self._capacity} {devices}"
        elsewhere = None if on_dies is None else on_dies.everywhere
        self._steps = StepPrograms(scope, store, elsewhere=elsewhere, graphs=self._graphs)
        self._steps.compile(steps, progress)

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
        return GraphSlots(
            [LayerKind.RECURRENT if one else LayerKind.ATTENTION for one in self._config.recurrent],
            list(self._steps.captured.values()),
            _layers_of,
            batched=self._batched,
        )

    def _padding(self, batch: int) -> tuple[Any, ...]:
        """Arguments of a decode step of so many entries, all of them padding."""
        padding = [self._capacity.rows] * batch
        greedy = [RowSampling(0, 1, 0, 0)] * batch
        arguments = self._arguments.decode(
            padding, [0] * batch, [()] * batch, greedy, [None] * batch, [None] * batch, []
        )
        return self._parameters, *arguments

    def temporary_bytes(self, step: str) -> int:
        """Bytes that a compiled step takes beside its arguments and results, as XLA plans it.

        Raises:
            ValueError: the backend does not say.
        """
        analysis = self._steps.compiled(step).memory_analysis()
        if analysis is None:
            raise ValueError(f"{jax.default_backend()} does not say what memory a step takes")
        return int(analysis.temp_size_in_bytes)

    def _of_model(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A step of the model with the state as its first argument."""
        on_dies, page_size = self._on_dies, self._capacity.page_size
        if on_dies is None:
            return step_of_model(self._architecture, self._config, page_size, step)
        own = step_of_model(self._architecture, on_dies.local, page_size, step)
        return on_dies.spread(own, self._parameters)

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def traced(*arguments: Any) -> Any:
            self.traces += 1
            return step(*arguments)

        return traced

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
        parts = self._steps["read page"](self._state, np.int32(page))
        found = [
            layer for part in map(np.asarray, parts) for layer in part.reshape(-1, *part.shape[-3:])
        ]
        return found if self._on_dies is None else self._on_dies.page_of_model(found)

    def empty_page(self) -> list[np.ndarray]:
        """A page of zeros, as `read_page` gives it."""
        config, capacity = self._config, self._capacity
        shape = (config.kv_heads, capacity.page_size, config.head_dim)
        return [np.zeros(shape, config.kv_dtype) for _ in range(2 * config.attention_layers)]

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of one page, as `read_page` gives it."""
        arrays = self._page_arrays(content)
        self._state = self._steps["write page"](self._state, np.int32(page), arrays)

    def _page_arrays(self, content: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """A page layer by layer as the arrays of pages have it."""
        if self._on_dies is not None:
            return tuple(self._on_dies.page_of_dies(content))
        if not self._parameters.is_stacked:
            return tuple(content)
        (pages,) = jax.tree.leaves(self._state.cache.kv)
        return (np.stack(content).reshape(pages.shape[1:]),)

    def read_state(self, slot: int) -> list[np.ndarray]:
        """Copy the recurrent state of a checkpoint to the host, layer by layer."""
        parts = self._steps["read state"](self._state, np.int32(self._checkpoint(slot)))
        found = [np.asarray(part) for part in parts]
        return found if self._on_dies is None else self._on_dies.state_of_model(found)

    def empty_recurrent_state(self) -> list[np.ndarray]:
        """A state of zeros, as `read_state` gives it; of nothing without recurrent layers."""
        shapes = self._architecture.recurrent_shapes(self._config)
        return [np.zeros(shape, np.float32) for shape in shapes]

    def _state_arrays(self, content: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """A recurrent state layer by layer as the arrays of states have it."""
        return tuple(content if self._on_dies is None else self._on_dies.state_of_dies(content))

    def write_state(self, slot: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of a checkpoint, as `read_state` gives it."""
        number = np.int32(self._checkpoint(slot))
        arrays = self._state_arrays(content)
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
        step = self._steps[_decode_name(holding(len(rows), self.batches))]
        chosen, self._state = step(self._state, self._parameters, *arguments)
        return Sampled(chosen, sampling)


def _layers_of(executable: Executable) -> CapturedLayers | None:
    return executable.layers if isinstance(executable, CapturedProgram) else None


def _on_host(array: jax.Array) -> bool:
    return array.sharding.memory_kind == HOST_MEMORY


def _decode_name(batch: int) -> str:
    return f"decode {batch}"
