"""Compiled programs as bytes."""

from __future__ import annotations

import pickle
import zlib
from typing import Final

import jax
from jax.experimental.serialize_executable import deserialize_and_load, serialize

_LEVEL: Final = 1
"""Programs repeat themselves from layer to layer: even the fastest level leaves a tenth."""


def dump(program: jax.stages.Compiled) -> bytes:
    """A program as bytes.

    Raises:
        Exception: the backend cannot; of whatever class it uses for that.
    """
    executable = program.runtime_executable()
    assert executable is not None, "a compiled program has an executable"
    devices = [device.id for device in executable.local_devices()]
    return zlib.compress(pickle.dumps((devices, serialize(program))), _LEVEL)


def load(data: bytes) -> jax.stages.Compiled:
    """The program of `dump`, for the devices that it was compiled for. What it calls must be
    registered.

    The bytes are run: they must come from a folder that nobody else can write to.

    Raises:
        Exception: they are no program of this JAX and this machine.
    """
    ids, (payload, in_tree, out_tree) = pickle.loads(zlib.decompress(data))
    by_id = {device.id: device for device in jax.local_devices()}
    program: jax.stages.Compiled = deserialize_and_load(
        payload, in_tree, out_tree, execution_devices=[by_id[number] for number in ids]
    )
    return program
