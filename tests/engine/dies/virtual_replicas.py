"""A program: two replicas of a reference model on dies of this host, and what becomes of requests.

    python -m tests.engine.dies.virtual_replicas FOLDER

Compiled programs are kept in FOLDER. Prints one line of JSON. See `virtual_dies`.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import jax

from pantheon.engine.config import EngineConfig
from pantheon.engine.dies import DieManager, find_dies
from pantheon.engine.errors import LoadFailed
from pantheon.engine.events import Finished, TextDelta
from pantheon.engine.programs import open_programs
from pantheon.engine.registry import Registry
from pantheon.engine.requests import CompletionRequest, Sampling
from tests.engine.dies.virtual_dies import MEMORY, RESERVE, instances_of, options_of
from tests.golden import golden_file

_WAIT_S = 120.0


def _ask(registry: Registry, text: str, session: str | None) -> tuple[str, int]:
    """The greedy answer, and how many tokens of the prompt were cached."""
    messages = ({"role": "user", "content": text},)
    sampling = Sampling(temperature=0.0, top_p=1.0, top_k=0, seed=1)
    request = CompletionRequest(
        None, messages, session_id=session, max_tokens=12, sampling=sampling
    )
    completion = registry.submit(request)
    assert completion.wait_admitted(_WAIT_S)
    answer = ""
    while True:
        event = completion.next_event(_WAIT_S)
        if isinstance(event, TextDelta):
            answer += event.text
        if isinstance(event, Finished):
            return answer, event.usage.cached_tokens
        assert event is not None, "no event came"


def main(folder: str) -> None:
    """See the module. The progress of loads goes to standard error."""
    logging.basicConfig(level=logging.INFO)
    config = EngineConfig((), "cpu", "test", compile_cache_dir=Path(folder))
    programs = open_programs(config)
    manager = DieManager(find_dies(jax.devices(), RESERVE, memory=[MEMORY] * 8))
    registry = Registry(config, programs=programs, dies=manager)
    path = golden_file("models/llama-smollm-f32.gguf")
    found: dict[str, Any] = {}
    try:
        registry.load(options_of(path, (3,)))
        try:
            registry.load(options_of(path, (3, 4)))
        except LoadFailed as refused:
            found["overlapping"] = refused.failure.name
        registry.load(options_of(path, (5, 6)))
        first, second = instances_of(registry)
        found["listed"] = [row.dies for row in registry.models()]
        found["on_dies"] = [(row.model != "", row.n_models) for row in registry.dies()]
        found["answers"] = [
            _ask(registry, "Tell me about dies.", session) for session in (None, "a", "a")
        ]
        # A session that the second one holds, though the first has as little to do.
        snapshot = first.export_session("a")
        second.restore_session("b", b"".join(snapshot.blob), snapshot.tokens)
        found["answers"].append(_ask(registry, "Tell me about dies.", "b"))
        found["homes"] = [
            [one.holds_session(session) for one in (first, second)] for session in ("a", "b")
        ]
        registry.unload(registry.models()[0].id)
        found["left"] = [(row.n_models, row.vram_used) for row in registry.dies()]
    finally:
        registry.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
