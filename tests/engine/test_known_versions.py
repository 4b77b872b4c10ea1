"""A version that is remembered is that of the file as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pantheon.engine import known_versions
from pantheon.engine.gguf import GGUFFile, weights_version
from pantheon.engine.known_versions import known_version
from pantheon.engine.programs import PrivateFolder
from tests.golden import golden_file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(golden_file("models/llama-smollm-f32.gguf").read_bytes())
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrivateFolder:
    # The copy of the model has just been written.
    monkeypatch.setattr(known_versions, "_SETTLED_NS", 0)
    return PrivateFolder.open(tmp_path / "programs")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that a file was hashed whether its weights are quantised."""
    calls: list[bool] = []

    def counted(file: GGUFFile, *, quantized: bool) -> int:
        calls.append(quantized)
        return weights_version(file, quantized=quantized)

    monkeypatch.setattr(known_versions, "weights_version", counted)
    return calls


def _version(path: Path, folder: PrivateFolder | None, *, quantized: bool = False) -> int:
    with GGUFFile(path) as file:
        return known_version(file, folder, quantized=quantized)


def test_an_unchanged_file_is_hashed_once(
    model: Path, folder: PrivateFolder, hashed: list[bool]
) -> None:
    first = _version(model, folder)
    with GGUFFile(model) as file:
        assert first == weights_version(file)
    assert _version(model, folder) == first
    assert _version(model, folder, quantized=True) != first
    assert hashed == [False, True]
    assert _version(model, None) == first
    assert hashed == [False, True, False]


def test_a_changed_file_is_hashed_again_whatever_its_time_says(
    model: Path, folder: PrivateFolder
) -> None:
    before, times = _version(model, folder), model.stat()
    with model.open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"\x01\x02\x03")
    os.utime(model, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = _version(model, folder)
    assert after != before
    with GGUFFile(model) as opened:
        assert after == weights_version(opened)


def test_a_file_that_may_still_change_is_not_remembered(
    model: Path, tmp_path: Path, hashed: list[bool]
) -> None:
    folder = PrivateFolder.open(tmp_path / "programs")
    assert _version(model, folder) == _version(model, folder)
    assert hashed == [False, False]


@pytest.mark.parametrize("content", [b"", b"-1", b"x", b"1.5"])
def test_what_is_no_version_is_not_believed(
    model: Path, folder: PrivateFolder, content: bytes
) -> None:
    version = _version(model, folder)
    (path,) = folder.path.iterdir()
    folder.write(path.name, content)
    assert _version(model, folder) == version
