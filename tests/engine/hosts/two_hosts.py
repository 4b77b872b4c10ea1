"""A program: one of two processes of a server over several hosts, each with two dies of its CPU.

    python -m tests.engine.hosts.two_hosts PROCESS PORT NAME

Process 0 loads the reference model NAME onto all four dies, asks it, and prints what came. Then it
begins a long answer, says so, and prints how that ended: the other process is killed meanwhile.
Process 1 follows. Each line printed is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

import jax

from pantheon.engine.config import EngineConfig, HostOptions
from pantheon.engine.dies import DieManager, find_dies
from pantheon.engine.errors import EngineError
from pantheon.engine.events import Failed, Finished
from pantheon.engine.hosts import follow, follow_hosts, lead_hosts
from pantheon.engine.precision import Precision
from pantheon.engine.registry import Registry
from tests.engine.dies.virtual_dies import (
    FED_BACK,
    MEMORY,
    RESERVE,
    asked_by_ids,
    instances_of,
    options_of,
)
from tests.golden import golden_arrays, golden_file

FLAG = "--xla_force_host_platform_device_count=2"
SIZES = (MEMORY, MEMORY, MEMORY, MEMORY // 8)
"""Bytes of the dies of both."""

_LONG = 200
"""Tokens of an answer that has not ended when the follower goes."""


def main(process: int, port: int, name: str) -> None:
    """See the module."""
    options = HostOptions(("127.0.0.1", port), 2, process)
    if process:
        channel = follow_hosts(options, "test")
        print(json.dumps({"ended": follow(channel)}), flush=True)
        return
    hosts = lead_hosts(options, "test")
    config = EngineConfig((), "cpu", "test", precision=Precision.FLOAT32)
    devices = jax.devices()
    dies = DieManager(find_dies(devices, RESERVE, memory=SIZES))
    registry = Registry(config, dies=dies, hosts=hosts)
    golden = golden_arrays(f"models/{name}.npz")
    prompt, greedy = golden["ids"].tolist(), golden["greedy"].tolist()
    registry.load(options_of(golden_file(f"models/{name}-f32.gguf"), tuple(range(4))))
    (instance,) = instances_of(registry)
    model = asked_by_ids(instance)
    assert instance._binding is not None
    found: dict[str, Any] = {
        "locals": [die.is_local for die in dies._dies.values()],
        "vram_used": [die.vram_used for die in registry.dies()],
        "vram_bytes": instance.status().vram_bytes,
        "left_bytes": instance._binding.left_bytes(),
        "tokens": model.ask(prompt, limit=len(greedy)).tokens,
    }
    model.ask(prompt, "own", FED_BACK)
    taken = registry.export_session(None, "own")
    registry.restore_session(None, "moved", b"".join(taken.blob), taken.tokens)
    turn = model.ask([*prompt, *greedy[:FED_BACK]], "moved", len(greedy) - FED_BACK)
    found |= {"continued": turn.tokens, "cached": turn.cached}
    print(json.dumps(found), flush=True)
    _lose(registry, model, prompt)


def _lose(registry: Registry, model: Any, prompt: list[int]) -> None:
    """Ask for a long answer, and say when it has begun, so that the other process can be ended."""
    turn = model.start(prompt, limit=_LONG)
    assert turn.generation.stream.wait_admitted(60.0)
    print(json.dumps({"begun": True}), flush=True)
    events = []
    while not events or not isinstance(events[-1], (Failed, Finished)):
        event = turn.generation.stream.next_event(60.0)
        assert event is not None, "no event came"
        events.append(event)
    found = {"last": type(events[-1]).__name__, "message": getattr(events[-1], "message", "")}
    try:
        model.start(prompt)
    except EngineError as error:
        found |= {"refused": str(error)}
    closing = threading.Thread(target=registry.unload, args=(registry.models()[0].id,))
    closing.start()
    closing.join(60.0)
    found |= {
        "unloaded": not closing.is_alive(),
        "on_dies": sum(d.n_models for d in registry.dies()),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    # JAX would wait for a step that waits for the process that is gone.
    os._exit(0)
