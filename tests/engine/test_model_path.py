"""Paths of a load (reference, `path`; scenario, paths): hostile ones are "file not found"."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import LoadFailed, LoadFailure
from pantheon.engine.model_path import below_root, check_is_file, served_name
from pantheon.engine.registry import Registry

_HOSTILE = [
    "/nonexistent/model.gguf",
    "relative.gguf",
    "../../../../../../nonexistent",
    "~/model.gguf",
    "http://localhost/model.gguf",
    "file:///etc/passwd",
    "a\0b",
    "x" * 10_000,
    "/" + "a/" * 5_000,
    "/dev/zero",
    "/dev/tty",
    "/proc/self/mem/..",
    "/",
    "",
    "\n\x1b[31m",
    "\ud800",
]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("path", _HOSTILE)
def test_a_hostile_path_is_not_found(path: str) -> None:
    with pytest.raises(LoadFailed) as refused:
        check_is_file(Path(path))
    assert refused.value.failure is LoadFailure.FILE_NOT_FOUND
    message = str(refused.value)
    assert len(message) < 300 and message.isascii() and message.isprintable()


@pytest.mark.timeout(10)
def test_what_could_hang_is_never_opened(tmp_path: Path) -> None:
    fifo, unix, folder = (tmp_path / name for name in ("fifo", "unix", "folder"))
    os.mkfifo(fifo)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(unix))
        for path in (fifo, unix, folder):
            link = tmp_path / f"to-{path.name}"
            link.symlink_to(path)
            for named in (path, link):
                with pytest.raises(LoadFailed):
                    check_is_file(named)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("path", ["/proc/self/environ", "/etc/passwd", __file__])
def test_a_file_that_is_no_model_shows_nothing_of_itself(path: str) -> None:
    registry = Registry(EngineConfig(models=(), backend="cpu", build="test"))
    with pytest.raises(LoadFailed) as refused:
        registry.load(ModelOptions(path=Path(path)))
    assert refused.value.failure is LoadFailure.OTHER
    message = str(refused.value).replace(path, "").replace(Path(path).name, "")
    assert "PATH=" not in message and "root" not in message and "Paths" not in message


def _under(root: Path, path: Path) -> Path:
    return below_root(ModelOptions(path=path), root).path


def test_under_a_root_only_what_really_lies_below_it_exists(tmp_path: Path) -> None:
    root, outside = tmp_path / "models", tmp_path / "models-secret"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "a.gguf").touch()
    (root / "out.gguf").symlink_to(outside / "a.gguf")
    (root / "in.gguf").symlink_to("a.gguf")
    (root / "away").symlink_to(outside)
    assert _under(root, root / "a.gguf") == root / "a.gguf"
    assert _under(root, root / "in.gguf") == root / "a.gguf"
    assert _under(root, root / "away" / ".." / "models" / "a.gguf") == root / "a.gguf"
    missing = _refusal(root, root / "missing.gguf")
    for path in (
        outside / "a.gguf",
        root / ".." / "models-secret" / "a.gguf",
        root / "out.gguf",
        root / "away" / "a.gguf",
        Path("/etc/passwd"),
        Path("a\0b"),
        Path("\ud800"),
        Path("x" * 10_000),
    ):
        assert _refusal(root, path) == missing, path


def _refusal(root: Path, path: Path) -> str:
    with pytest.raises(LoadFailed) as refused:
        below_root(ModelOptions(path=path), root)
    assert refused.value.failure is LoadFailure.FILE_NOT_FOUND
    return str(refused.value).split("/")[0].split("'")[0]


def test_a_link_keeps_its_own_name_as_the_served_one(tmp_path: Path) -> None:
    (tmp_path / "real.gguf").touch()
    (tmp_path / "nice.gguf").symlink_to("real.gguf")
    options = below_root(ModelOptions(path=tmp_path / "nice.gguf"), tmp_path)
    assert (options.path.name, served_name(options)) == ("real.gguf", "nice")


def test_the_root_holds_for_loads_at_run_time(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    path = tmp_path / "outside.gguf"
    path.write_bytes(b"GGUF")
    config = EngineConfig(models=(), backend="cpu", build="test", model_root=tmp_path / "models")
    with pytest.raises(LoadFailed) as refused:
        Registry(config).load(ModelOptions(path=path))
    assert refused.value.failure is LoadFailure.FILE_NOT_FOUND
    with pytest.raises(LoadFailed) as refused:
        Registry(EngineConfig(models=(), backend="cpu", build="test")).load(ModelOptions(path=path))
    assert refused.value.failure is LoadFailure.OTHER
