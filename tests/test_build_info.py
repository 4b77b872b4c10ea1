"""The constants of a build (reference, `GET /`: `backend` and `build`)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pantheon import build_info


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
    [(None, "cpu"), ("jax_cuda12_plugin", "cuda"), ("jax_cuda13_plugin", "cuda")],
)
def test_backend_is_the_plugin_that_the_installation_chose(
    monkeypatch: pytest.MonkeyPatch, installed: str | None, backend: str
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: name if name == installed else None
    )
    assert build_info.backend() == backend
