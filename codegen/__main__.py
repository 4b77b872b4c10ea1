"""The command line of the code generation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from codegen import output
from codegen.document import UnsupportedSpec, load
from codegen.render import generate

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Write or check the generated files.

    Returns:
        0 on success; 1 when `--check` finds a difference; 2 when the spec cannot be generated.
    """
    parser = argparse.ArgumentParser(
        prog="python -m codegen",
        description="Generate pantheon/generated from the OpenAPI document.",
    )
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on any diff")
    parser.add_argument("--spec", type=Path, default=ROOT / "openapi" / "pantheon.yaml")
    parser.add_argument("--output", type=Path, default=ROOT / "pantheon" / "generated")
    options = parser.parse_args(arguments)
    try:
        files = generate(load(options.spec))
    except UnsupportedSpec as error:
        print(f"{options.spec}#{error}", file=sys.stderr)
        return 2
    if not options.check:
        output.write(options.output, files)
        return 0
    difference = output.differences(options.output, files)
    if difference:
        print(difference, end="")
        print(f"{options.output} does not follow {options.spec}: run `make codegen`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
