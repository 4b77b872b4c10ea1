"""A program: loads a reference model onto 1, 2, 4 and 8 of eight virtual dies, or onto other
numbers of them, and says what it answers there.

    python -m tests.engine.dies.virtual_dies NAME [--for-gpus] [COUNT ...]

With `--for-gpus` by the kernels for GPUs, interpreted.

XLA makes eight devices of the host where XLA_FLAGS asks for them before JAX starts, so that this
must be a process of its own. Prints one line of JSON.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from pantheon.engine import loading
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.dies import DieManager, find_dies
from pantheon.engine.instance import ModelInstance
from pantheon.engine.model import Implementation
from pantheon.engine.precision import Precision
from pantheon.engine.registry import Registry
from tests.engine.live_model import LiveModel
from tests.golden import COMPILE_CACHE, golden_arrays, golden_file

FLAG = "--xla_force_host_platform_device_count=8"
COUNTS = (1, 2, 4, 8)
MEMORY = 1 << 30
RESERVE = 1 << 20
FED_BACK = 20
"""Tokens of the answer that stand in the prompt of the second turn."""


def registry_of_virtual_dies(**config: Any) -> Registry:
    """A registry over every device of the host as a die."""
    return Registry(
        EngineConfig((), "cpu", "test", precision=Precision.FLOAT32, **config),
        dies=DieManager(find_dies(jax.devices(), RESERVE, memory=[MEMORY] * len(jax.devices()))),
    )


def options_of(path: Path, dies: tuple[int, ...] | None, rows: int = 2) -> ModelOptions:
    """Of a small window and few rows, whose steps are soon compiled."""
    return ModelOptions(path=path, dies=dies, ctx_cap=256, max_sessions=2, max_concurrent=rows)


def instances_of(registry: Registry) -> list[ModelInstance]:
    """The instances that are served."""
    found = [one for one in registry._table.live() if isinstance(one, ModelInstance)]
    assert len(found) == len(registry.models())
    return found


def asked_by_ids(instance: ModelInstance) -> LiveModel:
    """The same instance, to be asked by token ids."""
    loop, runner, transfer = instance._loop, instance._runner, instance._transfer
    assert transfer is not None
    return LiveModel(loop, loop._scheduler, runner, transfer)


def answers(
    path: Path, prompt: list[int], greedy: list[int], counts: Sequence[int], rows: int
) -> list[dict[str, Any]]:
    """For each number of dies what is answered, alone and from a session of the one before."""
    registry = registry_of_virtual_dies()
    found: list[dict[str, Any]] = []
    blob: tuple[bytes, list[int]] | None = None
    try:
        for count in counts:
            dies = tuple(range(8 - count, 8))
            status = registry.load(options_of(path, dies, rows))
            assert status is not None
            (instance,) = instances_of(registry)
            model = asked_by_ids(instance)
            row: dict[str, Any] = {
                "dies": status.dies,
                "by": model.runner._config.implementation.name,
                "tokens": model.ask(prompt, limit=len(greedy)).tokens,
                "vram_used": [die.vram_used for die in registry.dies()],
                "vram_bytes": instance.status().vram_bytes,
            }
            if blob is not None:
                registry.restore_session(None, "moved", *blob)
                turn = model.ask([*prompt, *greedy[:FED_BACK]], "moved", len(greedy) - FED_BACK)
                row |= {"continued": turn.tokens, "cached": turn.cached}
            model.ask(prompt, "own", FED_BACK)
            taken = registry.export_session(None, "own")
            blob = (b"".join(taken.blob), list(taken.tokens))
            found.append(row)
            registry.unload(status.id)
            assert all(die.n_models == 0 and die.vram_used == 0 for die in registry.dies())
    finally:
        registry.close()
    return found


def main(name: str, counts: Sequence[int], rows: int) -> None:
    """See the module."""
    jax.config.update("jax_compilation_cache_dir", str(COMPILE_CACHE))
    folder = "quant" if "-Q" in name or "-F16" in name else "models"
    golden = golden_arrays(f"{folder}/{name}.npz")
    path = golden_file(f"{folder}/{name}{'' if folder == 'quant' else '-f32'}.gguf")
    found = answers(path, golden["ids"].tolist(), golden["greedy"].tolist(), counts, rows)
    print(json.dumps(found))


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--for-gpus", action="store_true")
    parser.add_argument("counts", nargs="*", type=int, default=COUNTS)
    given = parser.parse_intermixed_args()
    if given.for_gpus:
        chosen = Implementation.GPU_INTERPRETED
        with mock.patch.object(loading, "_implementation", lambda *_, **__: chosen):
            # Interpreted, a step takes long to compile: one of a decode step is enough.
            main(given.name, given.counts, rows=1)
    else:
        main(given.name, given.counts, rows=2)
