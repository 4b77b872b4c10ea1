"""Sessions, threads and the scheduler: each scene with its goals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import beside_prefill, conversation, overhead, thread_scene
from bench.goals import Measure
from bench.peer import Peer
from bench.prompts import Prompts
from bench.running_stream import endless_fields
from bench.servers import llama_cpp, pantheon
from bench.workloads import WordLengths

_NO_LOOP_END: Final = {"PANTHEON_REPETITION_LOOP": "0"}


class Scenes:
    """The scenes over one model file, each with servers of its own."""

    def __init__(self, root: Path, peer: Peer, model: Path, folder: Path) -> None:
        """Keep the servers' logs in `folder`."""
        self._root = root
        self._peer = peer
        self._model = model
        self._log = folder / "server.log"

    def turns(self) -> Sequence[Measure]:
        """Turn ten of a conversation, warm and cold, here and by the peer."""
        context = conversation.CONTEXT
        with pantheon(self._root, self._model, 1, context, self._log) as server:
            lengths = WordLengths.of(server, Prompts(seed=1))
            ours = conversation.converse(server, lengths, conversation.warm_fields(), {})
        with llama_cpp(self._peer, self._model, 1, context, self._log, caches=True) as server:
            theirs = conversation.converse(server, lengths, {}, {"cache_prompt": False})
        return conversation.measures(ours, theirs)

    def overhead(self) -> Sequence[Measure]:
        """What a step costs beside the device."""
        return (
            overhead.host_part(self._model),
            *overhead.over_http(self._root, self._model, self._log),
        )

    def threads(self) -> Sequence[Measure]:
        """`GET /` while everything else waits."""
        settings = thread_scene.SETTINGS
        context = thread_scene.CONTEXT
        with pantheon(self._root, self._model, 1, context, self._log, settings) as server:
            return thread_scene.measure_threads(server, endless_fields(self._model))

    def prefill(self) -> Sequence[Measure]:
        """A stream beside a long prefill, here and by the peer."""
        rows, context = beside_prefill.ROWS, beside_prefill.CONTEXT
        endless = endless_fields(self._model)
        with pantheon(self._root, self._model, rows, context, self._log, _NO_LOOP_END) as server:
            lengths = WordLengths.of(server, Prompts(seed=1))
            ours = beside_prefill.stream_beside_prefill(server, lengths, endless)
        with llama_cpp(self._peer, self._model, rows, context, self._log) as server:
            theirs = beside_prefill.stream_beside_prefill(server, lengths, {"ignore_eos": True})
        return beside_prefill.measures(ours, theirs)


SCENES: Final[Mapping[str, Callable[[Scenes], Sequence[Measure]]]] = {
    "turns": Scenes.turns,
    "overhead": Scenes.overhead,
    "threads": Scenes.threads,
    "prefill": Scenes.prefill,
}


def measure_scenes(root: Path, peer: Peer, model: Path, names: Sequence[str]) -> list[Measure]:
    """Run scenes by name, in turn.

    Raises:
        BenchError: a scene cannot be measured.
    """
    measures: list[Measure] = []
    with tempfile.TemporaryDirectory() as folder:
        scenes = Scenes(root, peer, model, Path(folder))
        for name in names:
            print(f"scene: {name}", flush=True)
            measures += SCENES[name](scenes)
    return measures
