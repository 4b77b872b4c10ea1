"""The two constants of a build: the accelerator backend and the commit (reference, `GET /`).

An installed package carries both in `pantheon/_build.py`, written by the build (`setup.py`). A
source checkout has no such file: there the commit is read from git, and the backend is the one
whose JAX plugin the installation chose. Neither is a probe of a driver or a device.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Final

UNKNOWN: Final = "unknown"
BACKENDS: Final = ("cuda", "tt", "metal", "cpu")
"""What `backend` may be (reference, `GET /`)."""
_PLUGINS: Final = (
    ("cuda", ("jax_cuda13_plugin", "jax_cuda12_plugin")),
    # Tenstorrent's own package, and one of that name on the public index.
    ("tt", ("jax_plugin_tt", "jax_plugins.libtt")),
    ("metal", ("jax_plugins.mps",)),
)
"""Modules that JAX's plugins for a backend install. None is imported here."""


def version() -> str:
    """The version of the installed distribution, or `unknown` when none is installed."""
    try:
        return metadata.version("pantheon")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def backend() -> str:
    """One of `BACKENDS`: baked by the build, else what the installed JAX plugins say."""
    baked = _baked()
    if baked is not None and baked.BACKEND is not None:
        return str(baked.BACKEND)
    installed = (name for name, plugins in _PLUGINS if any(map(_is_installed, plugins)))
    return next(installed, "cpu")


def build() -> str:
    """The commit, `-dirty` suffixed when tracked files were changed, or `unknown`."""
    baked = _baked()
    if baked is not None:
        return str(baked.BUILD)
    return commit_of(Path(__file__).resolve().parent.parent)


def commit_of(root: Path) -> str:
    """The commit of the git checkout whose top folder is `root`, or `unknown`."""
    if not (root / ".git").exists():
        return UNKNOWN
    # --exclude keeps tags out of the name: the reference shows the bare commit.
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        result = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        # No git, no commit yet, or a checkout that git refuses: the commit is not known.
        return UNKNOWN
    return result.stdout.strip() or UNKNOWN


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False  # Nor is the package that it would be in.


def _baked() -> ModuleType | None:
    name = "pantheon._build"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
