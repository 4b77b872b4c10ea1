"""What a folder gives back is what was put there by its owner, or nothing and a line."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.programs import FolderRefused, PrivateFolder

NAME = "program-0123"
CONTENT = os.urandom(5000)


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    return PrivateFolder.open(tmp_path / "programs")


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "pantheon.engine.programs")
    return caplog


def test_what_was_written_is_read(folder: PrivateFolder) -> None:
    assert not folder.has(NAME)
    assert folder.read(NAME) is None
    assert folder.write(NAME, CONTENT)
    assert folder.has(NAME)
    assert folder.read(NAME) == CONTENT
    assert (folder.path / NAME).stat().st_mode & 0o777 == 0o600
    assert folder.path.stat().st_mode & 0o777 == 0o700


@given(data=st.data())
def test_a_file_that_differs_anywhere_is_not_used(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = PrivateFolder.open(tmp_path_factory.mktemp("x") / "programs")
    content = data.draw(st.binary(max_size=200))
    folder.write(NAME, content)
    path = folder.path / NAME
    whole = path.read_bytes()
    kept = data.draw(st.integers(0, len(whole) - 1), "kept")
    path.write_bytes(whole[:kept])
    assert folder.read(NAME) is None
    changed = bytearray(whole)
    changed[kept] ^= data.draw(st.integers(1, 255), "bits")
    path.write_bytes(bytes(changed))
    assert folder.read(NAME) is None
    path.write_bytes(whole + b"\0")
    assert folder.read(NAME) is None
    path.write_bytes(whole)
    assert folder.read(NAME) == content


def test_a_damaged_file_is_a_line_in_the_log(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture
) -> None:
    (folder.path / NAME).write_bytes(b"pantheon")
    assert folder.read(NAME) is None
    assert ["it is damaged" in record.getMessage() for record in warnings.records] == [True]


def test_a_file_that_was_given_another_name_is_not_used(folder: PrivateFolder) -> None:
    folder.write(NAME, CONTENT)
    (folder.path / NAME).rename(folder.path / "program-4567")
    assert folder.read("program-4567") is None


def test_a_file_that_others_may_write_is_not_used(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture
) -> None:
    folder.write(NAME, CONTENT)
    (folder.path / NAME).chmod(0o620)
    assert folder.read(NAME) is None
    assert "somebody else" in warnings.records[0].getMessage()


def test_a_link_and_a_folder_are_not_followed(folder: PrivateFolder, tmp_path: Path) -> None:
    folder.write(NAME, CONTENT)
    (folder.path / NAME).rename(tmp_path / NAME)
    (folder.path / NAME).symlink_to(tmp_path / NAME)
    assert folder.read(NAME) is None
    (folder.path / "program-dir").mkdir()
    assert folder.read("program-dir") is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "programs"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(FolderRefused, match=f"writable by its owner alone, got mode {mode:o}"):
        PrivateFolder.open(path)


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(FolderRefused, match=f"must belong to user {uid + 1}, got user {uid}"):
        PrivateFolder.open(tmp_path)


def test_a_link_and_a_file_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderRefused, match="no link"):
        PrivateFolder.open(tmp_path / "link")
    with pytest.raises(FolderRefused, match="cannot be used"):
        PrivateFolder.open(tmp_path / "file")


def test_a_folder_that_is_gone_keeps_nothing(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture
) -> None:
    folder.path.rmdir()
    assert not folder.write(NAME, CONTENT)
    assert folder.read(NAME) is None
    assert ["is not kept" in record.getMessage() for record in warnings.records] == [True]


def test_the_least_recently_used_make_room(folder: PrivateFolder) -> None:
    folder.write("a", CONTENT)
    size = (folder.path / "a").stat().st_size
    small = replace(folder, most_bytes=3 * size)
    for age, name in enumerate(("b", "c")):
        small.write(name, CONTENT)
        os.utime(folder.path / name, (1000 - age, 1000 - age))
    os.utime(folder.path / "a", (10, 10))
    assert small.read("a") == CONTENT
    small.write("d", CONTENT)
    assert sorted(path.name for path in folder.path.iterdir()) == ["a", "b", "d"]


def test_a_file_that_is_too_large_is_neither_kept_nor_read(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture
) -> None:
    folder.write(NAME, CONTENT)
    small = replace(folder, largest=len(CONTENT))
    assert not small.write("program-1", CONTENT)
    assert small.read(NAME) is None
    assert ["bytes are too many" in record.getMessage() for record in warnings.records] == [
        True
    ] * 2


def test_what_killed_processes_left_goes(folder: PrivateFolder) -> None:
    old, new = folder.path / ".new-old", folder.path / ".new-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    folder.write(NAME, CONTENT)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".new-x", "A", "x" * 101])
def test_no_name_leads_elsewhere(folder: PrivateFolder, name: str) -> None:
    uses: list[Callable[[str], object]] = [
        folder.has,
        folder.read,
        lambda name: folder.write(name, b""),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="a file's name must match"):
            use(name)


def test_many_writers_leave_one_whole_file(folder: PrivateFolder) -> None:
    contents = [os.urandom(200_000) for _ in range(4)]
    seen: list[bytes | None] = []

    def write(content: bytes) -> None:
        for _ in range(20):
            folder.write(NAME, content)
            seen.append(folder.read(NAME))

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert all(content in contents for content in seen)
    assert [path.name for path in folder.path.iterdir()] == [NAME]
