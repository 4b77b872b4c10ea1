"""Whole steps of models compiled for an H200: do they fit, and are they replayed as graphs?

They are the steps that the runner compiles, by the same functions, with the same donation and the
same options, over arguments of which only shapes exist.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import jax
from jax.sharding import NamedSharding, use_abstract_mesh

from bench.ahead_of_time import target
from bench.ahead_of_time.compiled_steps import PREFILL, WholeStep
from bench.ahead_of_time.step_models import StepModel
from pantheon.engine.model.registry import architecture_named
from pantheon.engine.model.sharding import Rows, Shards
from pantheon.engine.residency.thunks import launches
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.arguments import StepArguments
from pantheon.engine.runner.buckets import DECODE_BATCHES
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.empty_state import zeroed_state
from pantheon.engine.runner.graphs import CudaGraphs, dumped_layers
from pantheon.engine.runner.on_dies import Gives, OnDies
from pantheon.engine.runner.steps import decode_step, prefill_step, step_of_model

STEPS: Final = (*(f"decode {batch}" for batch in DECODE_BATCHES), PREFILL)
SMALLEST_DECODE: Final = STEPS[0]
LARGEST_DECODE: Final = STEPS[-2]

_ROWS: Final = DECODE_BATCHES[-1]
_PAGE: Final = 64
_CHECKPOINTS: Final = 16
_GREEDY: Final = RowSampling(0.0, 1.0, 0, 0)


def compiled_step(model: StepModel, step: str, dies: int = 1) -> WholeStep:
    """Compile one of `STEPS`, over so many devices. XLA must know its tools; see
    `target.use_tools`."""
    shards = Shards.over(target.devices(dies), model.config, put=_shape_on_dies)
    function, arguments, results = _step(model, step, shards)
    began = time.perf_counter()
    # By it Triton and Pallas know the device.
    with use_abstract_mesh(shards.mesh.abstract_mesh), warnings.catch_warnings():
        # From 0.11 on each lowering through Triton says that Mosaic GPU will replace it.
        warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
        jitted = jax.jit(function, donate_argnums=0, out_shardings=results)
        lowered = jitted.trace(*arguments).lower()
    is_decode = step != PREFILL
    options = CudaGraphs.options if is_decode else {}
    with TemporaryDirectory() as folder:
        compiled = lowered.compile({**options, "xla_dump_to": folder})
        layers = dumped_layers(Path(folder), compiled)
        (sequence,) = Path(folder).glob("*.thunk_sequence_after_thunk_passes.txt")
        inside = launches(sequence.read_text(encoding="utf-8"))
    memory = compiled.memory_analysis()
    assert memory is not None, "XLA says what memory a step for a GPU takes"
    return WholeStep(
        model=model.name,
        kind=model.kind,
        step=step,
        dies=dies,
        layers=model.config.layers,
        of_layers=model.of_layers,
        argument_bytes=memory.argument_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        result_bytes=memory.output_size_in_bytes - memory.alias_size_in_bytes,
        inside=sum(inside.values()),
        outside=len(inside) - sum(inside.values()),
        layers_captured=None if layers is None else len(layers.layers),
        whole=layers is not None and layers.whole,
        seconds=time.perf_counter() - began,
    )


def _step(
    model: StepModel, step: str, shards: Shards
) -> tuple[Callable[..., Any], tuple[Any, ...], Any]:
    """The function, shapes of what it is called with, and layouts of what it gives."""
    config, architecture = model.config, architecture_named(model.architecture)
    capacity = Capacity(
        rows=_ROWS,
        pages=_ROWS * config.context_length // _PAGE,
        page_size=_PAGE,
        window=config.context_length,
        checkpoints=_CHECKPOINTS if any(config.recurrent) else 0,
    )
    made = StepArguments(config, capacity, DECODE_BATCHES)
    given: tuple[Any, ...]
    function: Callable[..., Any]
    if step == PREFILL:
        function, given = prefill_step, made.prefill([0], 0, (0,), 0)
    else:
        batch = int(step.split()[1])
        padding, nothing = [_ROWS] * batch, [None] * batch
        given = made.decode(
            padding, [0] * batch, [()] * batch, [_GREEDY] * batch, nothing, nothing, []
        )
        function = decode_step
    held = shards.plan.held(config)
    on_dies = OnDies(
        shards,
        jax.eval_shape(lambda: zeroed_state(architecture, held, capacity, None, stacked=False)),
    )
    state, parameters = on_dies.shapes, model.parameters(shards)
    own = step_of_model(architecture, on_dies.local, _PAGE, function)
    arguments = (state, parameters, *on_dies.put(given))
    return on_dies.spread(own, parameters), arguments, on_dies.results(Gives.BOTH, state)


def _shape_on_dies(
    array: Any, layout: NamedSharding, order: Rows | None, axis: int
) -> jax.ShapeDtypeStruct:
    """See `Put`: nothing but the shape, which is all that there is."""
    shape = list(array.shape)
    if order is not None:
        shape[axis] = len(order)
    return jax.ShapeDtypeStruct(tuple(shape), array.dtype, sharding=layout)  # type: ignore[no-untyped-call]
