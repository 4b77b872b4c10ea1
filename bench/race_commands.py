"""What `python -m bench` prints and keeps of the race with llama.cpp."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench import machine
from bench.bounds import bound_rates, bound_table
from bench.errors import BenchError
from bench.kl import CONTEXT as KL_CONTEXT
from bench.kl import TEXT, accuracy_table, measure_accuracy
from bench.larger_model import larger_model
from bench.microseconds import measure_steps, step_table
from bench.peaks import measure_peaks
from bench.peer import find_peer, missing_features
from bench.processor import processor_flags, read_cpuinfo
from bench.race import CONTEXT, PREFILL_TOKENS, Plan, run_race
from bench.race_rows import race_table
from bench.results import RESULTS, ROOT, keep


def race(plan: Plan, model: Path) -> None:
    """Race with llama.cpp over a model and the larger one, against the goals."""
    peer = find_peer(ROOT, os.environ.get("LLAMA_BIN"))
    missing = missing_features(peer, processor_flags(read_cpuinfo()))
    if missing:
        print(f"WARNING: the peer's build does not use {', '.join(missing)} of this processor")
    larger = larger_model(ROOT, model)
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        finish = run_race(ROOT, peer, model, larger, plan, Path(folder))
    print("\n" + race_table(finish.rows, "llama.cpp"))
    print(
        f"\n{model.name}; larger: {larger.name}; {record['machine']['cpu']}, "
        f"{record['machine']['cores']} cores, {peer.version}, {finish.seconds / 60:.1f} minutes, "
        f"load average {load:.2f} before"
    )
    print("Of probe: of the rate of all products alone, by the same kernels and without a server.")
    print("Plain decoding (PANTHEON_SPECULATION=0), greedy, answers of equal length.")
    for warning in finish.warnings():
        print(f"WARNING: {warning}")
    record["versions"]["llama.cpp"] = peer.version
    record |= {
        "models": [{"file": one.name, "bytes": one.stat().st_size} for one in (model, larger)],
        "sizes": {
            "prefill_tokens": PREFILL_TOKENS,
            "context": CONTEXT,
            "decode_tokens": plan.decode_tokens,
            "rounds": plan.rounds,
            "larger_rounds": plan.larger_rounds,
            "requests": {str(clients): count for clients, count in plan.loads.items()},
            "load_rounds": plan.load_rounds,
        },
        "peer_features": list(peer.features),
        "peer_unused": list(missing),
        "load_before": round(load, 2),
        **finish.record(),
    }
    keep("race", record)


def kl(model: Path, quick: bool) -> None:
    """Compare every mode's logits, and llama.cpp's, with the float32 reference's."""
    peer = find_peer(ROOT, os.environ.get("LLAMA_BIN"))
    record = machine.describe(ROOT)
    chunks = 1 if quick else 3
    with tempfile.TemporaryDirectory() as folder:
        found, positions = measure_accuracy(ROOT, peer, model, Path(folder), chunks)
    print("\n" + accuracy_table(found))
    print(f"\n{model.name}, {positions} positions of bench/{TEXT}, {peer.version}")
    record["versions"]["llama.cpp"] = peer.version
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "sizes": {"positions": positions, "context": KL_CONTEXT, "decoded_chunks": chunks},
        "unit": "nats",
        "rows": [one.record() for one in found],
    }
    keep("kl", record)


def probes(model: Path) -> None:
    """Measure what the processor allows for the products of each rate, without a server."""
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        one, all_of_them = measure_peaks(Path(folder))
    for peaks in (one, all_of_them):
        print(
            f"{peaks.threads} thread(s): {peaks.float32 / 1e9:.1f} float32 and "
            f"{peaks.int16 / 1e9:.1f} int16 10^9 multiply-adds/s, {peaks.bytes / 1e9:.1f} GB/s read"
        )
    bounds = bound_rates(model, all_of_them, RESULTS)
    print("\n" + bound_table(bounds))
    print(f"\n{model.name}, load average {load:.2f} before; served: the last race kept here")
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "load_before": round(load, 2),
        "peaks": [peaks.record() for peaks in (one, all_of_them)],
        "unit": "tokens/s",
        "rows": [bound.record() for bound in bounds],
    }
    keep("probes", record)


def overhead(model: Path, quick: bool) -> None:
    """Take a decode step of the real model apart, served over HTTP."""
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    tokens = 48 if quick else 200
    with tempfile.TemporaryDirectory() as folder:
        found = measure_steps(ROOT, model, tokens, Path(folder) / "server.log")
    print("\n" + step_table(found))
    print(f"\n{model.name}, load average {load:.2f} before")
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "load_before": round(load, 2),
        "unit": "microseconds",
        "steps": [one.record() for one in found],
    }
    keep("overhead", record)


def plots() -> None:
    """Draw the last kept results into docs/.

    Raises:
        BenchError: matplotlib is not installed, or there are no results.
    """
    try:
        from bench.plots import draw_plots, drawn_names
    except ModuleNotFoundError as error:
        raise BenchError(f"the plots need matplotlib: pip install '.[bench]' ({error})") from None
    print(f"drawn: {drawn_names(draw_plots(RESULTS, ROOT / 'docs'))}")
