"""How the processes of one server find each other."""

from __future__ import annotations

import socket
import time
from typing import Final

import jax

from pantheon.engine.config import HostOptions
from pantheon.engine.errors import EngineError
from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.group import HostGroup
from pantheon.engine.hosts.meeting import await_followers
from pantheon.engine.hosts.messages import FromLeader, Hello

_JOIN_S: Final = 300
"""Longest time from the first process to the last."""

_RETRY_S: Final = 0.2


def lead_hosts(options: HostOptions, build: str) -> HostGroup:
    """Wait for all followers, before JAX is used for anything else. Of process 0.

    Raises:
        EngineError: they did not come in time, or one is of another build.
    """
    memory = _meet(options)
    try:
        return _group(options, build, memory)
    except (OSError, ChannelClosed) as error:
        raise _not_met(error) from error


def follow_hosts(options: HostOptions, build: str) -> Channel[FromLeader]:
    """The way to process 0, when all are there; see `lead_hosts`. Of the other processes.

    Raises:
        EngineError: they did not come in time.
    """
    memory = _meet(options)
    host, port = options.coordinator
    try:
        return _to_leader((host, port + 1), Hello(options.process, build, tuple(memory)))
    except (OSError, ChannelClosed) as error:
        raise _not_met(error) from error


def _meet(options: HostOptions) -> list[int]:
    """Make one of the processes' devices; bytes of each of those here."""
    # Collectives between the CPUs of hosts, where those are what computes.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # type: ignore[no-untyped-call]
    # A process that goes away must not take this one with it: its requests get an answer.
    jax.config.update("jax_enable_recoverability", True)  # type: ignore[no-untyped-call]
    # SIGTERM is the server's.
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    host, port = options.coordinator
    # An address of IPv6 has colons of its own.
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        jax.distributed.initialize(
            place,
            options.processes,
            options.process,
            initialization_timeout=_JOIN_S,
            coordinator_bind_address=place if options.process == 0 else None,
        )
    # JAX says it by whatever its libraries raise.
    except Exception as error:
        raise _not_met(error) from error
    # What keeps no account of its memory, such as a CPU, counts as none.
    return [
        int((device.memory_stats() or {}).get("bytes_limit", 0)) for device in jax.local_devices()
    ]


def _not_met(error: Exception) -> EngineError:
    return EngineError(f"the processes of this server did not meet: {error!s:.500}")


def _to_leader(address: tuple[str, int], hello: Hello) -> Channel[FromLeader]:
    deadline = time.monotonic() + _JOIN_S
    while True:
        try:
            connection = socket.create_connection(address, timeout=_JOIN_S)
        except ConnectionRefusedError:
            # The first process is not there yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            channel: Channel[FromLeader] = Channel(connection, FromLeader)
            channel.send(hello)
            return channel


def _group(options: HostOptions, build: str, memory: list[int]) -> HostGroup:
    host, port = options.coordinator
    family = socket.getaddrinfo(host, port + 1, type=socket.SOCK_STREAM)[0][0]
    with socket.create_server((host, port + 1), family=family) as server:
        met = await_followers(server, options.processes, build, _JOIN_S)
    memory_of = {0: tuple(memory)} | {hello.process: hello.memory for _, hello in met}
    return HostGroup(
        {hello.process: channel for channel, hello in met},
        [size for _, own in sorted(memory_of.items()) for size in own],
    )
