"""KL divergence of llama.cpp from a reference, by its own llama-perplexity."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from bench.errors import BenchError
from bench.kl_stats import Divergence
from bench.peer import Peer
from bench.process import running, tail, wait_until

_SECONDS: Final = 900.0
_NUMBERS: Final = {
    "mean": r"^Mean\s+KLD:\s*(-?[\d.]+)",
    "largest": r"^Maximum KLD:\s*(-?[\d.]+)",
    "same_top": r"^Same top p:\s*([\d.]+)",
}


def peer_divergence(
    peer: Peer, model: Path, base: Path, context: int, batch: int, folder: Path
) -> Divergence:
    """Run llama-perplexity on a file of reference log-probabilities.

    Args:
        batch: tokens computed at once: 1 computes each by itself, as decoding does.
        folder: for its log.

    Raises:
        BenchError: there is no llama-perplexity beside llama-server, or it fails.
    """
    program = peer.server.with_name("llama-perplexity")
    if not os.access(program, os.X_OK):
        raise BenchError(f"expected a program {program.name} beside {peer.server.name}")
    threads = str(len(os.sched_getaffinity(0)))
    command = (
        *(str(program), "--model", str(model), "--kl-divergence"),
        *("--kl-divergence-base", str(base), "--ctx-size", str(context)),
        *("--batch-size", str(context), "--ubatch-size", str(batch)),
        *("--threads", threads, "--threads-batch", threads, "--poll", "0", "--offline"),
    )
    log = folder / "perplexity.log"
    with running(command, folder, log, os.environ) as process:
        wait_until(lambda: process.poll() == 0, process, log, _SECONDS, lambda waited: None)
    return read_divergence(log.read_text("utf-8", "replace"), tail(log))


def read_divergence(output: str, shown: str = "") -> Divergence:
    """Read the statistics that llama-perplexity ends with.

    Args:
        shown: what an error shows of the output.

    Raises:
        BenchError: one of them is missing.
    """
    found = {name: re.search(rule, output, re.MULTILINE) for name, rule in _NUMBERS.items()}
    numbers = {name: float(match.group(1)) for name, match in found.items() if match}
    if len(numbers) < len(_NUMBERS):
        missing = ", ".join(sorted(set(_NUMBERS) - set(numbers)))
        raise BenchError(f"llama-perplexity did not tell {missing}; it said:\n{shown or output}")
    return Divergence(numbers["mean"], numbers["largest"], numbers["same_top"] / 100)
