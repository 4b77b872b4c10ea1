"""Reads the weights of a file in a process of its own and prints what that took, as JSON.

`python -m tests.engine.model.packed_load FILE [quantize] [native]`
"""

import json
import sys
import threading
from pathlib import Path

import jax.numpy as jnp

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import Implementation, WeightReader
from pantheon.engine.model.read import held_bytes


def _anonymous() -> int:
    """Bytes of memory that is no page of a file."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Read every matrix while a thread watches."""
    jnp.zeros(1).block_until_ready()
    before = peak = _anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with GGUFFile(sys.argv[1]) as file:
        options = sys.argv[2:]
        chosen = Implementation.NATIVE if "native" in options else Implementation.XLA
        reader = WeightReader(file, quantize="quantize" in options, implementation=chosen)
        held = [reader.weight(info.name, *info.shape) for info in file.tensors.values()]
    done.set()
    watcher.join()
    print(json.dumps({"peak": max(peak, _anonymous()) - before, "held": held_bytes(held)}))


if __name__ == "__main__":
    main()
