"""The environment of `make kernels`: made again only where it is made of something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kernels_gpu import environment

_PROJECT = """
[project]
dependencies = ["numpy>=2"]

[project.optional-dependencies]
kernels = ["triton=={version}"]
test = ["ruff=={ruff}"]
"""


def _key(folder: Path, version: str = "3.9.0", ruff: str = "1") -> str:
    project = folder / "pyproject.toml"
    project.write_text(_PROJECT.format(version=version, ruff=ruff))
    return environment.key(project)


def test_its_name_depends_on_what_it_needs_and_on_nothing_else(tmp_path: Path) -> None:
    assert _key(tmp_path) == _key(tmp_path, ruff="2")
    assert _key(tmp_path) != _key(tmp_path, version="3.9.1")


def test_it_needs_what_pantheon_needs_and_the_extra(tmp_path: Path) -> None:
    _key(tmp_path)
    found = environment.requirements(tmp_path / "pyproject.toml")
    assert found == ["numpy>=2", "triton==3.9.0"]


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    """KERNELS=FOLDER is removed where it is an environment made of something else."""
    (tmp_path / "precious").write_text("mine")
    run = subprocess.run(
        ("make", "kernels-environment", f"KERNELS={tmp_path}", f"KERNELS_PYTHON={sys.executable}"),
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode != 0
    expected = "is there and is no environment"
    if sys.version_info < (3, 12):
        expected = "Python 3.12 or newer is needed"
    assert expected in run.stderr
    assert (tmp_path / "precious").read_text() == "mine"
