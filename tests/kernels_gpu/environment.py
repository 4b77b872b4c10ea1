"""What the environment of `make kernels` is made of: `environment.py` prints it, a line a package;
`environment.py --key` prints a name for it, and for the Python that runs this.

Standard library alone: it runs before the environment is there.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def requirements(project: Path) -> list[str]:
    """What Pantheon and the extra `kernels` need, as pip takes it."""
    described = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    return [*described["dependencies"], *described["optional-dependencies"]["kernels"]]


def key(project: Path) -> str:
    """A name that differs where the environment must."""
    version = ".".join(map(str, sys.version_info[:3]))
    needed = "\n".join([version, *requirements(project)])
    return hashlib.sha256(needed.encode()).hexdigest()[:16]


if __name__ == "__main__":
    print(key(_PROJECT) if sys.argv[1:] == ["--key"] else "\n".join(requirements(_PROJECT)))
