"""The constants of a build (reference, `GET /`: `backend` and `build`)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pantheon import build_info

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """setup.py as a module that sets nothing up."""
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    spec = importlib.util.spec_from_file_location("pantheon_setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_commit_of_a_clean_checkout(checkout: Path) -> None:
    head = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    git(checkout, "tag", "-a", "v1", "-m", "a tag is not the commit")
    assert build_info.commit_of(checkout) == head[:12]


def test_commit_of_a_changed_checkout_is_dirty(checkout: Path) -> None:
    (checkout / "file").write_text("b")
    assert build_info.commit_of(checkout).endswith("-dirty")


def test_commit_is_unknown_without_a_checkout_or_a_commit(tmp_path: Path) -> None:
    assert build_info.commit_of(tmp_path) == "unknown"
    git(tmp_path, "init", "-q")
    assert build_info.commit_of(tmp_path) == "unknown"


def test_folder_inside_a_checkout_is_none_itself(checkout: Path) -> None:
    inner = checkout / "inner"
    inner.mkdir()
    assert build_info.commit_of(inner) == "unknown"


def test_baked_constants_win(monkeypatch: pytest.MonkeyPatch) -> None:
    baked = ModuleType("pantheon._build")
    baked.BACKEND = "cuda"  # type: ignore[attr-defined]
    baked.BUILD = "0123456789ab"  # type: ignore[attr-defined]
    baked.__spec__ = importlib.util.spec_from_loader("pantheon._build", None)
    monkeypatch.setitem(sys.modules, "pantheon._build", baked)
    assert (build_info.backend(), build_info.build()) == ("cuda", "0123456789ab")


@pytest.mark.parametrize(
    ("installed", "backend"),
    [
        ("unrelated", "cpu"),
        ("jax_plugins/other", "cpu"),
        ("jax_cuda12_plugin", "cuda"),
        ("jax_cuda13_plugin", "cuda"),
        ("jax_plugins/mps", "metal"),
        ("jax_plugin_tt", "tt"),
        ("jax_plugins/libtt", "tt"),
    ],
)
def test_backend_is_the_plugin_that_the_installation_chose(
    tmp_path: Path, installed: str, backend: str
) -> None:
    """Reference, `backend`: a constant and no probe.

    A module of that name is installed which must not be imported: it would look for a device.
    """
    module = tmp_path / installed
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("raise RuntimeError('this is not to be imported')\n")
    program = "from pantheon import build_info; print(build_info.backend())"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    run = subprocess.run(
        (sys.executable, "-c", program),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.stdout, run.returncode) == (f"{backend}\n", 0), run.stderr


@pytest.mark.parametrize("backend", ["cuda", "tt", "metal", "cpu"])
def test_a_build_bakes_each_backend_of_the_reference(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str
) -> None:
    """Reference, `GET /`: compiled with `cuda`, `tt`, `metal` or `cpu`."""
    (tmp_path / "pantheon").mkdir()
    monkeypatch.setenv("PANTHEON_BACKEND", backend)
    setup.bake(tmp_path)
    assert f"BACKEND: str | None = '{backend}'\n" in (tmp_path / "pantheon/_build.py").read_text()


def test_a_build_for_another_backend_is_refused(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PANTHEON_BACKEND", "rocm")
    with pytest.raises(ValueError, match="expected one of cuda, tt, metal, cpu, got 'rocm'"):
        setup.bake(tmp_path)
