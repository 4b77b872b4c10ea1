"""A follower: runs what the first host tells, on the dies of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import jax
import numpy as np

from pantheon.engine.gguf import GGUFError, GGUFFile, weights_version
from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.messages import (
    Beat,
    Close,
    CopyPage,
    Decode,
    FromLeader,
    LoadState,
    Open,
    Prefill,
    ReadPage,
    ReadState,
    Ready,
    Refused,
    Reset,
    SaveState,
    Start,
    StartRow,
    StepFailed,
    StepMessage,
    WritePage,
    WriteState,
)
from pantheon.engine.model import (
    Architecture,
    ModelConfig,
    Parameters,
    Shards,
    WeightReader,
    architecture_of,
)
from pantheon.engine.runner import Capacity, Runner

_log = logging.getLogger(__name__)

_BEAT_S: Final = 1.0
"""Seconds between two words: a fraction of the silence that the first host puts up with."""

_HEARD_S: Final = 0.2
"""Seconds in which the first host hears of a failed step before it is given what that step gave."""


@dataclass(frozen=True)
class _Opened:
    """A model whose weights are here."""

    architecture: Architecture
    config: ModelConfig
    parameters: Parameters
    shards: Shards


def follow(channel: Channel[FromLeader]) -> str:
    """Do what is told until the first host ends it; why it ended, in words."""
    ended = threading.Event()
    threading.Thread(target=_beat, args=(channel, ended), name="beat", daemon=True).start()
    try:
        return _follow(channel)
    finally:
        ended.set()
        channel.close()


def _beat(channel: Channel[FromLeader], ended: threading.Event) -> None:
    """Say that this process is alive: a step or a compilation may take minutes."""
    while not ended.wait(_BEAT_S):
        try:
            channel.send(Beat())
        except ChannelClosed:
            # A part of it may have gone out: nothing can be said any more.
            channel.close()
            return


def _follow(channel: Channel[FromLeader]) -> str:
    opened: dict[int, _Opened] = {}
    runners: dict[int, Runner] = {}
    failed: set[int] = set()
    while True:
        try:
            message = channel.receive()
            if isinstance(message, Close):
                opened.pop(message.model, None)
                failed.discard(message.model)
                runner = runners.pop(message.model, None)
                if runner is not None:
                    runner.close()
            elif isinstance(message, Open | Start):
                _load(channel, message, opened, runners)
            elif message.model in runners:
                _step(channel, runners[message.model], message, failed)
            else:
                raise ChannelClosed(f"a step came for model {message.model}, which is not here")
        except ChannelClosed as error:
            return str(error)
        except _StepLost as error:
            return str(error)


class _StepLost(Exception):
    """A step can't be dispatched: the first host waits for its other half for ever."""


def _load(
    channel: Channel[FromLeader],
    message: Open | Start,
    opened: dict[int, _Opened],
    runners: dict[int, Runner],
) -> None:
    """Do a part of a load, and say so."""
    try:
        if isinstance(message, Open):
            opened[message.model] = _open(message)
        else:
            runners[message.model] = _start(opened.pop(message.model), message.capacity)
    # Whatever it raises ends the load and not the follower.
    except Exception as error:
        _log.exception("model %d: not loaded", message.model)
        channel.send(Refused(message.model, f"{type(error).__name__}: {error!s:.300}"))
    else:
        channel.send(Ready(message.model))


def _open(told: Open) -> _Opened:
    with GGUFFile(Path(told.path)) as file:
        if weights_version(file, quantized=told.quantize) != told.version:
            raise GGUFError(f"expected the weights of the first host in {told.path}, got others")
        architecture = architecture_of(file)
        config = architecture.read_config(file).within(told.ctx_cap)
        config = replace(
            config, implementation=told.implementation, kv_dtype=told.precision.kv_dtype
        )
        by_id = {device.id: device for device in jax.devices()}
        shards = Shards.over([by_id[number] for number in told.devices], config)
        reader = WeightReader(
            file,
            quantize=told.quantize,
            implementation=told.implementation,
            precision=told.precision,
            shards=shards,
        )
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            parameters = architecture.read_parameters(reader, config, lambda done, total: None)
    return _Opened(architecture, config, parameters, shards)


def _start(model: _Opened, capacity: Capacity) -> Runner:
    runner = Runner(
        model.architecture, model.config, model.parameters, capacity, shards=model.shards
    )
    runner.compile(lambda message: _log.info("%s", message))
    return runner


def _step(
    channel: Channel[FromLeader], runner: Runner, message: StepMessage, failed: set[int]
) -> None:
    """Dispatch a step, with empty states where it fails: its other half waits for it.

    Args:
        failed: models of which the first host knows that a step failed, until it resets them.

    Raises:
        _StepLost: it fails with empty states too.
        ChannelClosed: what was told is no step of this model.
    """
    if isinstance(message, Reset):
        failed.discard(message.model)
    try:
        _dispatch(runner, message)
    except ChannelClosed:
        raise
    # Whatever it raises ends requests and not the follower.
    except Exception as error:
        step = type(message).__name__
        _log.exception("model %d: %s failed", message.model, step)
        reason = f"{step}: {type(error).__name__}: {error!s:.300}"
        if message.model not in failed:
            failed.add(message.model)
            channel.send(StepFailed(message.model, reason))
            time.sleep(_HEARD_S)
        try:
            runner.reset()
            _dispatch(runner, message)
        except ChannelClosed:
            raise
        except Exception as again:
            _log.exception("model %d: %s failed again", message.model, step)
            raise _StepLost(f"model {message.model} can't be kept in step: {reason}") from again


def _dispatch(runner: Runner, message: StepMessage) -> None:
    """Dispatch a step. What it gives is the first host's to read."""
    match message:
        case Reset():
            runner.reset()
        case StartRow():
            runner.start_row(message.row, message.sampling)
        case CopyPage():
            runner.copy_page(message.source, message.target)
        case LoadState():
            runner.load_state(message.row, message.slot)
        case SaveState():
            runner.save_state(message.row, message.slot)
        case ReadPage():
            runner.dispatch_read_page(message.page)
        case WritePage():
            runner.write_page(message.page, _arrays(message.content, runner.empty_page()))
        case ReadState():
            runner.dispatch_read_state(message.slot)
        case WriteState():
            content = _arrays(message.content, runner.empty_recurrent_state())
            runner.write_state(message.slot, content)
        case Prefill():
            runner.prefill(message.tokens, message.start, message.pages, message.row)
        case Decode():
            runner.decode(
                message.rows,
                message.positions,
                message.pages,
                message.sampling,
                [
                    None if mask is None else np.frombuffer(mask, np.uint32)
                    for mask in message.masks
                ],
                message.fed,
                message.taken,
            )


def _arrays(content: Sequence[bytes], like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of their bytes.

    Raises:
        ChannelClosed: they are not as many or as large as the model has them.
    """
    if [len(part) for part in content] != [part.nbytes for part in like]:
        raise ChannelClosed("expected a page or a state of this model, got other sizes")
    return [
        np.frombuffer(part, own.dtype).reshape(own.shape)
        for part, own in zip(content, like, strict=True)
    ]
