"""Loads and unloads a model again and again beside a live one; prints what came of it as JSON.

A program of its own, so that the memory it measures is its own. Arguments: model file, folder of
the compile cache, cycles.
"""

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path

import jax
import psutil

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.events import Finished
from pantheon.engine.registry import build_engine
from pantheon.engine.requests import CompletionRequest, Sampling


def main(model: str, cache: str, cycles: int) -> None:
    """Run the cycles and print the numbers."""
    logging.basicConfig(level=logging.WARNING)
    # One row: each load traces the decode steps of all sizes.
    live = ModelOptions(
        path=Path(model), name="live", ctx_cap=256, max_sessions=1, max_concurrent=1
    )
    options = replace(live, name="other", ctx_cap=512)
    config = EngineConfig(
        models=(live,), backend="cpu", build="test", compile_cache_dir=Path(cache)
    )
    registry = build_engine(config)
    compiled: list[str] = []

    def count(name: str, seconds: float, **_: object) -> None:
        if name.endswith(("backend_compile_duration", "jaxpr_trace_duration")):
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(count)
    process = psutil.Process()
    resident, threads, files, loads, answers = [], [], [], [], []
    for _ in range(cycles):
        registry.load(options)
        registry.unload("other")
        resident.append(process.memory_info().rss)
        threads.append(process.num_threads())
        files.append(process.num_fds())
        loads.append(len(compiled))
        compiled.clear()
        _generate(registry)
        answers.append(len(compiled))
        compiled.clear()
    found = {
        "resident": resident,
        "threads": threads,
        "files": files,
        "traced_in_loads": loads,
        "traced_in_answers": answers,
    }
    print(json.dumps(found))
    registry.close()


def _generate(registry: object) -> None:
    request = CompletionRequest(
        model="live",
        messages=({"role": "user", "content": "a"},),
        max_tokens=3,
        sampling=Sampling(temperature=0),
    )
    completion = registry.submit(request)  # type: ignore[attr-defined]
    while not isinstance(completion.next_event(60), Finished):
        pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
