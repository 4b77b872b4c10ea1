"""Bakes the constants of a build into the package and builds its native kernels; everything else
is in pyproject.toml.

A wheel or a source archive gets `pantheon/_build.py` with the commit it was made from. An
editable installation gets none and reads the commit from git at start.

PANTHEON_BACKEND=cuda, =tt, =metal or =cpu in the environment of the build bakes the backend too.
The build is not told which extras an installer chose, so without it the installed JAX plugin
decides.

The native kernels are built where there is a compiler; without one the package is complete, and
says at its start what it lacks. An editable installation builds them by `make native`.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
CONSTANTS = Path("pantheon") / "_build.py"
NATIVE = ROOT / "native" / "build.py"


def module_at(path: Path) -> ModuleType:
    """A module by its path: the package is not importable while it is being built."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"expected a module at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bake(folder: Path) -> None:
    """Write the constants under `folder`."""
    backend = os.environ.get("PANTHEON_BACKEND") or None
    build_info = module_at(ROOT / "pantheon" / "build_info.py")
    if backend not in (None, *build_info.BACKENDS):
        expected = ", ".join(build_info.BACKENDS)
        raise ValueError(f"PANTHEON_BACKEND: expected one of {expected}, got {backend!r}")
    if (ROOT / CONSTANTS).exists():
        commit = module_at(ROOT / CONSTANTS).BUILD  # A source archive brought it along.
    else:
        commit = build_info.commit_of(ROOT)
    (folder / CONSTANTS).write_text(
        '"""Constants of this build, written by setup.py."""\n\n'
        f"BACKEND: str | None = {backend!r}\n"
        f"BUILD = {commit!r}\n"
    )


def build_native(folder: Path) -> None:
    """Build the native kernels into the package under `folder`, where that is possible."""
    native = module_at(NATIVE)
    try:
        print(f"native kernels: {native.build(folder / native.PACKAGE)}")
    except native.BuildError as error:
        print(f"native kernels: NOT BUILT: {error}")


class BuildModules(build_py):
    """Copies the modules, then bakes and builds the native kernels."""

    def run(self) -> None:
        """Run the command."""
        super().run()
        if not self.editable_mode:
            bake(Path(self.build_lib))
            build_native(Path(self.build_lib))


class PlatformWheel(bdist_wheel):
    """A wheel with native kernels is for one platform, and for every Python on it."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, ABI and platform."""
        return "py3", "none", super().get_tag()[2]


class WithNative(Distribution):
    """Says whether the package will have something that is compiled."""

    def has_ext_modules(self) -> bool:
        """Asked for the platform of wheel and installation, before anything is built."""
        return bool(module_at(NATIVE).has_tools())


class SourceArchive(sdist):
    """A source archive has no git history, so it carries the constants."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Fill the folder that becomes the archive."""
        super().make_release_tree(base_dir, files)
        bake(Path(base_dir))


setup(
    cmdclass={
        "build_py": BuildModules,
        "bdist_wheel": PlatformWheel,
        "sdist": SourceArchive,
    },
    distclass=WithNative,
)
