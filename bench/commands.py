"""What `python -m bench` prints and keeps of comparisons of parts and of scenes."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from bench import kernels, machine, packed, parity, speculation, steps, tokenizers
from bench.comparison import table
from bench.goals import goal_table
from bench.peer import find_peer
from bench.results import ROOT, keep
from bench.sessions import measure_scenes


def compare_kernels(rounds: int) -> None:
    """Time kernels beside their references."""
    record = machine.describe(ROOT)
    comparisons = kernels.compare_kernels(rounds)
    print(table(comparisons, "kernel", "reference", "calls/s"))
    products = packed.compare_packed(2 * rounds)
    print("\n" + table(products, "native product", "XLA", "10^9 weights x rows/s"))
    record |= {
        "unit": "calls/s; products: 10^9 weights x rows/s",
        "cases": [comparison.record() for comparison in (*comparisons, *products)],
    }
    keep("kernels", record)


def compare_steps(rounds: int, model: Path) -> None:
    """Time additions to a decode step beside the plain one."""
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    # A step is short: many rounds cost little and the medians settle.
    comparisons = steps.compare_steps(model, 10 * rounds)
    print("\n" + table(comparisons, "decode step with", "plain", "steps/s"))
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "load_before": round(load, 2),
        "unit": "steps/s",
        "cases": [comparison.record() for comparison in comparisons],
    }
    keep("steps", record)


def compare_speculation(rounds: int, model: Path) -> None:
    """Time decoding with drafts beside plain decoding."""
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    found = speculation.compare_speculation(model, rounds)
    print("\n" + speculation.table(found))
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "load_before": round(load, 2),
        "unit": "tokens/s",
        "cases": [one.record() for one in found],
    }
    keep("speculation", record)


def measure_tokenizers(rounds: int) -> None:
    """Time the encoding of text."""
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    encodings = tokenizers.encode_texts(ROOT, rounds)
    print(tokenizers.table(encodings))
    record["versions"]["tokenizers"] = metadata.version("tokenizers")
    record |= {
        "sizes": {"text_bytes": tokenizers.TEXT_BYTES, "rounds": rounds},
        "load_before": round(load, 2),
        "unit": "processor seconds",
        "cases": [encoding.record() for encoding in encodings],
    }
    keep("tokenizers", record)


def measure_sessions(scenes: list[str], model: Path) -> None:
    """Measure scenes by name against their goals."""
    peer = find_peer(ROOT, os.environ.get("LLAMA_BIN"))
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    measures = measure_scenes(ROOT, peer, model, scenes)
    print("\n" + goal_table(measures, "llama.cpp"))
    record["versions"]["llama.cpp"] = peer.version
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "load_before": round(load, 2),
        "measures": [measure.record() for measure in measures],
    }
    keep("sessions", record)


def compare_parity(files: list[Path], seed: int) -> bool:
    """Compare answers with llama.cpp's; whether all are within their tolerances."""
    peer = find_peer(ROOT, os.environ.get("LLAMA_BIN"))
    record = machine.describe(ROOT)
    print(f"seed {seed} (--seed {seed} repeats its prompts), {peer.version}", flush=True)
    found = parity.compare_files(peer, files, seed)
    print("\n" + parity.parity_table(found))
    missed = [one.name for one in found if not one.held]
    print(f"\nseed {seed}: {len(found) - len(missed)} of {len(found)} comparisons held")
    record["versions"]["llama.cpp"] = peer.version
    record |= {
        "seed": seed,
        "sizes": {
            "prompt_tokens": parity.PROMPT_TOKENS,
            "greedy_tokens": parity.GREEDY_TOKENS,
        },
        "peer_features": list(peer.features),
        "held": not missed,
        "files": [one.record() for one in found],
    }
    keep("parity", record)
    return not missed
