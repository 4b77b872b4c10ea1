"""Entries that a killed process left unfinished do not outlive the next start."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from pantheon.engine.compile_cache import discard_unfinished
from tests.log_records import records_of

WHOLE = zlib.compress(os.urandom(200_000))


def write(folder: Path, name: str, data: bytes, age: int = 0) -> Path:
    path = folder / name
    path.write_bytes(data)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


@pytest.mark.parametrize("kept", [0, 1, 2, 1000, len(WHOLE) - 1])
def test_entry_that_was_cut_is_removed(tmp_path: Path, kept: int) -> None:
    cut = write(tmp_path, "jit_f-0123-cache", WHOLE[:kept])
    whole = write(tmp_path, "jit_g-4567-cache", WHOLE)
    discard_unfinished(tmp_path)
    assert not cut.exists()
    assert whole.read_bytes() == WHOLE


def test_entry_that_lost_a_block_is_removed(tmp_path: Path) -> None:
    """A file system may keep the length and not the bytes."""
    hole = write(tmp_path, "jit_f-0123-cache", WHOLE[:4096] + bytes(4096) + WHOLE[8192:])
    discard_unfinished(tmp_path)
    assert not hole.exists()


def test_what_is_no_zlib_entry_is_left_alone(tmp_path: Path) -> None:
    kept = [
        write(tmp_path, "jit_f-0123-cache", b"\x28\xb5\x2f\xfd zstandard"),
        write(tmp_path, "notes", WHOLE[:10]),
    ]
    (tmp_path / "folder-cache").mkdir()
    discard_unfinished(tmp_path)
    assert all(path.exists() for path in kept)


def test_only_the_newest_are_looked_at(tmp_path: Path) -> None:
    """A large cache does not slow the start."""
    old = write(tmp_path, "jit_old-0-cache", WHOLE[:10], age=1000)
    for index in range(32):
        write(tmp_path, f"jit_new-{index}-cache", WHOLE)
    discard_unfinished(tmp_path)
    assert old.exists()


def test_entry_that_cannot_be_read_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "pantheon.engine.compile_cache")
    (tmp_path / "folder-cache").mkdir()
    discard_unfinished(tmp_path)
    assert len(records_of(caplog, "pantheon.engine.compile_cache")) == 1


def test_jax_writes_entries_that_count_as_whole_and_reads_none_that_is_cut(tmp_path: Path) -> None:
    """Its own format, not our idea of it; a cut entry would never be written again."""
    program = (
        "import jax\n"
        f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path)!r})\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "jax.jit(lambda x: x * 3 + 1)(2.0).block_until_ready()\n"
    )

    def run() -> None:
        subprocess.run((sys.executable, "-W", "error", "-c", program), check=True, timeout=120)

    run()
    entries = {path: path.read_bytes() for path in tmp_path.glob("*-cache")}
    assert entries
    discard_unfinished(tmp_path)
    assert all(path.exists() for path in entries)
    for path, data in entries.items():
        path.write_bytes(data[: len(data) // 2])
    discard_unfinished(tmp_path)
    assert not any(path.exists() for path in entries)
    run()
    assert {path for path in tmp_path.glob("*-cache")} == set(entries)
