"""From a GGUF file to a running instance."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from pantheon.engine.cache import PagePool
from pantheon.engine.capacity import DEFAULT_SESSIONS, NotEnoughMemory, plan_capacity
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import LoadFailed, LoadFailure
from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.instance import InstanceIdentity, ModelInstance
from pantheon.engine.model import architecture_of
from pantheon.engine.runner import PREFILL_CHUNKS, Runner
from pantheon.engine.scheduler import Scheduler
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.tokenizer import (
    ChatTokenizer,
    TemplateError,
    Tokenizer,
    TokenizerError,
    Vocabulary,
)

_log = logging.getLogger(__name__)

_SPLIT_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")
_FLOAT32_BYTES = 4


def served_name(options: ModelOptions) -> str:
    """The id a model is served under: its own, else the file's name without its endings."""
    if options.name:
        return options.name
    return _SPLIT_SUFFIX.sub("", options.path.name.removesuffix(".gguf"))


def load_instance(options: ModelOptions, config: EngineConfig) -> ModelInstance:
    """Load a model, compile its steps and start its engine thread.

    Raises:
        LoadFailed: with its class; nothing of the model is kept.
    """
    if options.dies is not None:
        raise LoadFailed(
            LoadFailure.NO_ACCELERATOR,
            f"dies were named ({', '.join(map(str, options.dies)) or 'none'}), but this is a "
            f"{config.backend} build with no dies visible; leave them out or run another build",
        )
    if options.quantize:
        raise LoadFailed(LoadFailure.OTHER, "INT8 quantisation at load is not supported")
    if not _is_file(options.path):
        raise LoadFailed(LoadFailure.FILE_NOT_FOUND, f"there is no model file {options.path}")
    try:
        return _load(options, config)
    except (GGUFError, TokenizerError, TemplateError) as error:
        raise LoadFailed(
            LoadFailure.OTHER, f"{served_name(options)} cannot be loaded: {error}"
        ) from error
    except OSError as error:
        raise LoadFailed(
            LoadFailure.OTHER, f"{served_name(options)} cannot be loaded: {error.strerror}"
        ) from error
    except NotEnoughMemory as error:
        raise LoadFailed(LoadFailure.NO_CAPACITY, str(error)) from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A name too long for the file system, or a folder that may not be searched.
        return False


def _load(options: ModelOptions, config: EngineConfig) -> ModelInstance:
    name = served_name(options)
    began = time.monotonic()

    def progress(message: str) -> None:
        _log.info("%s: %s", name, message)

    with GGUFFile(options.path) as file:
        architecture = architecture_of(file)
        dimensions = architecture.read_config(file)
        tokenizer = _read_tokenizer(file, progress)
        progress(f"loading {dimensions.layers} layers of {architecture.name}")
        parameters = architecture.read_parameters(
            file, dimensions, lambda done, total: _report_layers(progress, done, total)
        )
    sessions = options.max_sessions or DEFAULT_SESSIONS
    concurrent = options.max_concurrent or sessions
    capacity = plan_capacity(
        context_length=dimensions.context_length,
        ctx_cap=options.ctx_cap,
        rows=concurrent if config.batch_slots else 1,
        bytes_per_token=dimensions.kv_values_per_token * _FLOAT32_BYTES,
        memory=int(psutil.virtual_memory().available * config.kv_memory_share),
    )
    progress(
        f"window {capacity.window} tokens, {capacity.rows} rows, "
        f"{capacity.pages * capacity.page_size} tokens of KV in all"
    )
    runner = Runner(architecture, dimensions, parameters, capacity)
    runner.compile(progress)
    scheduler = Scheduler(
        rows=capacity.rows,
        queue_depth=config.queue_depth if config.batch_slots else 0,
        chunks=PREFILL_CHUNKS,
        pool=PagePool(capacity.pages, capacity.page_size),
    )
    loop = StepLoop(name, runner, scheduler, queue_wait_s=config.queue_wait_s)
    progress(f"ready after {time.monotonic() - began:.1f} s")
    return ModelInstance(
        InstanceIdentity(
            id=name,
            path=str(options.path),
            max_sessions=sessions,
            max_concurrent_configured=concurrent,
            context_window_configured=options.ctx_cap or dimensions.context_length,
            reasoning_budget=options.reasoning_budget,
        ),
        tokenizer,
        runner,
        loop,
        capacity,
        attention_layers=dimensions.layers,
        stop_repetition=config.stop_repetition,
        thinking_default=config.thinking_default,
    )


def _read_tokenizer(file: GGUFFile, progress: Callable[[str], None]) -> ChatTokenizer:
    tokenizer = ChatTokenizer(
        Tokenizer(Vocabulary.from_metadata(file.metadata)),
        file.metadata.optional_string("tokenizer.chat_template"),
    )
    if tokenizer.fallback:
        progress("the file has no chat template; ChatML is used, as its vocabulary suggests")
    return tokenizer


def _report_layers(progress: Callable[[str], None], done: int, total: int) -> None:
    """Five lines at the most, however many layers there are."""
    if done == total or done % max(total // 5, 1) == 0:
        progress(f"loaded {done}/{total} layers")
