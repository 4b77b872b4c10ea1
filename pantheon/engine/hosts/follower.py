"""A follower: runs what the first host tells, on the dies of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np

from pantheon.engine.gguf import GGUFError, GGUFFile, weights_version
from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.messages import (
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


@dataclass(frozen=True)
class _Opened:
    """A model whose weights are here."""

    architecture: Architecture
    config: ModelConfig
    parameters: Parameters
    shards: Shards


def follow(channel: Channel[FromLeader]) -> str:
    """Do what is told until the first host ends it; why it ended, in words."""
    opened: dict[int, _Opened] = {}
    runners: dict[int, Runner] = {}
    while True:
        try:
            message = channel.receive()
            if isinstance(message, Close):
                opened.pop(message.model, None)
                runner = runners.pop(message.model, None)
                if runner is not None:
                    runner.close()
            elif isinstance(message, Open | Start):
                _load(channel, message, opened, runners)
            elif message.model in runners:
                _step(runners[message.model], message)
            else:
                raise ChannelClosed(f"a step came for model {message.model}, which is not here")
        except ChannelClosed as error:
            return str(error)


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


def _step(runner: Runner, message: StepMessage) -> None:
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
            runner.read_page(message.page)
        case WritePage():
            runner.write_page(message.page, _arrays(message.content, runner.empty_page()))
        case ReadState():
            runner.read_state(message.slot)
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
