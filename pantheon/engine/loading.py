"""From a GGUF file to a running instance."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import jax
from jax.errors import JaxRuntimeError

from pantheon.engine.admission import memory_need
from pantheon.engine.answering import AnswerOptions
from pantheon.engine.cache import PagePool, PrefixCache, ReferencePool, SessionTable
from pantheon.engine.capacity import DEFAULT_SESSIONS, NotEnoughMemory, plan_capacity, plan_states
from pantheon.engine.config import EngineConfig, ModelOptions, Speculation
from pantheon.engine.draft_plan import plan_drafts
from pantheon.engine.errors import LoadFailed, LoadFailure
from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.hosts import HostLost
from pantheon.engine.instance import InstanceIdentity, ModelInstance
from pantheon.engine.known_versions import known_version
from pantheon.engine.model import (
    Implementation,
    WeightReader,
    architecture_of,
    chosen_line,
    implementation_for,
    native_missing,
    platform_of,
)
from pantheon.engine.model.read import FLOAT32_BYTES
from pantheon.engine.model_path import check_is_file, served_name
from pantheon.engine.model_text import read_text
from pantheon.engine.placing import Home, OnHost, bind_dies
from pantheon.engine.runner import PREFILL_CHUNK, graphs_of
from pantheon.engine.scheduler import Scheduler
from pantheon.engine.session_blob import BlobTarget
from pantheon.engine.session_transfer import SessionTransfer
from pantheon.engine.shared import Shared
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.tokenizer import TemplateError, TokenizerError
from pantheon.engine.tools import dialect_for
from pantheon.engine.upkeep import PageUpkeep

_log = logging.getLogger(__name__)


def _no_check() -> None:
    """Nothing stops a load."""


def _any_weights(version: int) -> None:
    """Weights of every version are loaded."""


def load_instance(
    options: ModelOptions,
    config: EngineConfig,
    check: Callable[[], None] = _no_check,
    check_weights: Callable[[int], None] = _any_weights,
    *,
    shared: Shared | None = None,
) -> ModelInstance:
    """Load a model, compile its steps and start its engine thread.

    Args:
        check: called between the steps; what it raises ends the load.
        check_weights: called with the version of the weights before they are read; likewise.
        shared: what the models of the process share; its own when None.

    Raises:
        LoadFailed: with its class. Its traceback refers to what was made until then.
    """
    shared = shared or Shared.of(config)
    if options.dies:
        shared.dies.check(options.dies)
    check_is_file(options.path)
    if not shared.pressure.admits_load(options.dies):
        raise LoadFailed(
            LoadFailure.NO_CAPACITY,
            "the server is short of memory and loads no model now; retry later",
        )
    try:
        with ExitStack() as undo:
            instance = _load(options, config, check, check_weights, shared, undo)
            undo.pop_all()
            return instance
    except (GGUFError, TokenizerError, TemplateError) as error:
        raise LoadFailed(
            # What a file holds may be part of the message, and of any length.
            LoadFailure.OTHER,
            f"{served_name(options)} cannot be loaded: {error!s:.1000}",
        ) from error
    except OSError as error:
        raise LoadFailed(
            LoadFailure.OTHER, f"{served_name(options)} cannot be loaded: {error.strerror}"
        ) from error
    except HostLost as error:
        raise LoadFailed(
            LoadFailure.OTHER, f"{served_name(options)} cannot be loaded: {error}"
        ) from error
    except NotEnoughMemory as error:
        raise LoadFailed(LoadFailure.NO_CAPACITY, str(error)) from error
    except (MemoryError, JaxRuntimeError) as error:
        if isinstance(error, JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise LoadFailed(
            LoadFailure.NO_CAPACITY, f"memory ran out while {served_name(options)} was loaded"
        ) from error
    finally:
        if shared.programs is not None:
            shared.programs.forget()


def _load(
    options: ModelOptions,
    config: EngineConfig,
    check: Callable[[], None],
    check_weights: Callable[[int], None],
    shared: Shared,
    undo: ExitStack,
) -> ModelInstance:
    """See `load_instance`; what `undo` is given has to be done where the load fails."""
    name = served_name(options)
    began = time.monotonic()
    programs, occasion = shared.programs, repr(options)

    def progress(message: str) -> None:
        check()
        _log.info("%s: %s", name, message)

    # The thread ends before the file is closed.
    with GGUFFile(options.path) as file, ThreadPoolExecutor(1, "text") as reading:
        architecture = architecture_of(file)
        dimensions = architecture.read_config(file).within(options.ctx_cap)
        on_dies = len(shared.dies) > 0
        platform = _platform(shared)
        implementation = _implementation(config, platform, progress, on_dies=on_dies)
        native = implementation is Implementation.NATIVE
        if programs is not None:
            programs.foresee(occasion)
        dimensions = replace(
            dimensions, implementation=implementation, kv_dtype=config.precision.kv_dtype
        )
        need = memory_need(
            file, dimensions, options.ctx_cap, quantize=options.quantize, native=native
        )
        home: Home = OnHost(native)
        if on_dies:
            home = bind_dies(shared.dies, name, options.dies, need, dimensions, shared.hosts)
            undo.callback(home.release)
        else:
            need.check(home.free_bytes())
        # Beside the weights: most of those are read without the interpreter's lock.
        coming = reading.submit(read_text, file.metadata)
        version = known_version(
            file, None if programs is None else programs.folder, quantized=options.quantize
        )
        check_weights(version)
        home.open(options, config, dimensions, version)
        progress(f"loading {dimensions.layers} layers of {architecture.name}")
        with home.reading():
            parameters = architecture.read_parameters(
                WeightReader(
                    file,
                    quantize=options.quantize,
                    implementation=implementation,
                    precision=config.precision,
                    shards=home.shards,
                ),
                dimensions,
                lambda done, total: _report_layers(progress, done, total),
            )
        home.has_read(parameters, progress)
        home.opened()
        text = coming.result()
    tokenizer = text.tokenizer
    if tokenizer.fallback:
        progress("the file has no chat template; ChatML is used, as its vocabulary suggests")
    dialect = dialect_for(name, architecture.name, tokenizer.writes_bos)
    progress(f"tools are called in the dialect {dialect.name}")
    sessions = options.max_sessions or DEFAULT_SESSIONS
    concurrent = options.max_concurrent or sessions
    memory, local = int(home.free_bytes() * config.kv_memory_share), home.local(dimensions)
    home.claim(memory)
    states = plan_states(
        rows=concurrent if config.batch_slots else 1,
        sessions=sessions if config.session_cache else 0,
        state_bytes=local.state_values * FLOAT32_BYTES,
        memory=memory,
    )
    capacity = plan_capacity(
        context_length=dimensions.context_length,
        ctx_cap=options.ctx_cap,
        rows=states.rows,
        sessions=sessions if config.session_cache else 0,
        bytes_per_token=local.kv_bytes_per_token,
        memory=memory - states.bytes,
    )
    capacity = replace(capacity, checkpoints=states.checkpoints)
    progress(
        f"window {capacity.window} tokens, {capacity.rows} rows, "
        f"{capacity.pages * capacity.page_size} tokens of KV in all, in {dimensions.kv_dtype}"
    )
    runner = home.runner(
        architecture,
        dimensions,
        parameters,
        capacity,
        graphs=graphs_of(platform),
        batched=config.batch_slots,
    )
    home.hold(runner.held_by_device())
    runner.compile(progress, programs)
    if programs is not None:
        programs.remember(occasion, runner.program_keys)
    slots = ReferencePool(capacity.checkpoints) if capacity.checkpoints else None
    cache = PrefixCache(PagePool(capacity.pages, capacity.page_size), slots)
    draft_plan = plan_drafts(
        config.speculation,
        batches=runner.batches,
        is_recurrent=any(dimensions.recurrent),
        is_mixture=dimensions.moe is not None,
    )
    progress(draft_plan.line)
    scheduler = Scheduler(
        rows=capacity.rows,
        queue_depth=config.queue_depth if config.batch_slots else 0,
        chunk=PREFILL_CHUNK,
        cache=cache,
    )
    table = SessionTable(
        max_sessions=sessions,
        idle_ttl_s=config.session_idle_ttl_s,
        watch_grace_s=config.watch_grace_s,
        forget=cache.forget,
    )
    loop = StepLoop(
        name,
        runner,
        scheduler,
        table,
        queue_wait_s=config.queue_wait_s,
        speculation=draft_plan.speculation,
        upkeep=PageUpkeep(runner, lambda: home.hold(runner.held_by_device())),
        row_limit=lambda: (
            shared.pressure.clamp(
                home.ordinals, capacity.window, capacity.rows, capacity.page_size
            ).rows
        ),
    )
    target = BlobTarget(
        architecture=architecture.name,
        weights_version=version,
        layout=runner.empty_page(),
        page_size=capacity.page_size,
        window=capacity.window,
        vocabulary=dimensions.tokens,
        state_layout=runner.empty_recurrent_state(),
    )
    transfer = SessionTransfer(loop, cache, runner, target, snapshots=architecture.snapshots)
    identity = InstanceIdentity(
        id=name,
        path=str(options.path),
        max_sessions=sessions,
        max_concurrent_configured=concurrent,
        context_window_configured=options.ctx_cap or dimensions.context_length,
        architecture=architecture.name,
        weights_version=version,
    )
    try:
        instance = ModelInstance(
            identity,
            text,
            dialect,
            runner,
            loop,
            capacity,
            transfer if config.session_cache else None,
            shared,
            answers=AnswerOptions(
                options.reasoning_budget, config.stop_repetition, config.tool_grammar
            ),
            thinking_default=config.thinking_default,
            speculates=draft_plan.speculation is not Speculation.NEVER,
            binding=home.binding,
        )
        home.serves(loop)
        progress(f"ready after {time.monotonic() - began:.1f} s")
    except BaseException:
        # Its thread would keep it alive.
        loop.close()
        raise
    return instance


def _platform(shared: Shared) -> str:
    """That of the dies, where there are any, or of the default device."""
    device = shared.dies.device or jax.devices()[0]
    return platform_of(device.platform, device.client.platform_version)


def _implementation(
    config: EngineConfig, platform: str, progress: Callable[[str], None], *, on_dies: bool
) -> Implementation:
    """What computes a model; where kernels are missing, a line that nobody overlooks."""
    if on_dies and platform == "cpu":
        # Devices that stand for dies: the native kernels know one device, which is the host.
        return Implementation.XLA
    choice = implementation_for(platform, kernels=config.native, native_missing=native_missing)
    if not config.native:
        progress("PANTHEON_NATIVE=0: no kernels of ours are used")
    if choice.missing is not None:
        _log.warning(
            "THE %s KERNELS ARE MISSING: %s. Answers are as good, but take several times longer",
            "NATIVE" if platform == "cpu" else "GPU",
            choice.missing,
        )
    progress(chosen_line(choice.implementation))
    return choice.implementation


def _report_layers(progress: Callable[[str], None], done: int, total: int) -> None:
    """Five lines at the most, however many layers there are."""
    if done == total or done % max(total // 5, 1) == 0:
        progress(f"loaded {done}/{total} layers")
