"""Memory limits as the kernel documents them (cgroup-v2.rst, cgroup-v1/memory.rst)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pantheon.engine.host_memory import (
    FileDamaged,
    HostMemory,
    HostMemoryReader,
    host_memory,
    read_text,
)

GIB = 2**30


@dataclass(frozen=True)
class Machine:
    total: int = 64 * GIB
    available: int = 48 * GIB


@dataclass(frozen=True)
class Tree:
    """A procfs and a cgroup mount of our own."""

    folder: Path

    def reader(self, machine: Machine | None = None) -> HostMemoryReader:
        return HostMemoryReader(
            self.folder / "proc", self.folder / "cgroup", lambda: machine or Machine()
        )

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def member(self, lines: str) -> None:
        self.write("proc/self/cgroup", lines)

    def group2(self, group: str, limit: str, usage: str, inactive: str = "0") -> None:
        self.write(f"cgroup/{group}/memory.max", f"{limit}\n")
        self.write(f"cgroup/{group}/memory.current", f"{usage}\n")
        self.write(
            f"cgroup/{group}/memory.stat", f"anon 5\ninactive_file {inactive}\nactive_file 7\n"
        )

    def group1(self, group: str, limit: str, usage: str, inactive: str = "0") -> None:
        self.write(f"cgroup/memory/{group}/memory.limit_in_bytes", f"{limit}\n")
        self.write(f"cgroup/memory/{group}/memory.usage_in_bytes", f"{usage}\n")
        self.write(
            f"cgroup/memory/{group}/memory.stat",
            f"cache 1\ninactive_file 3\ntotal_inactive_file {inactive}\n",
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "pantheon.engine.host_memory")
    return lambda: [record.getMessage() for record in caplog.records]


def test_without_cgroups_the_machine_counts(tree: Tree, logged: Callable[[], list[str]]) -> None:
    assert tree.reader().read() == HostMemory(64 * GIB, 48 * GIB)
    assert tree.reader().used_share() == 0.25
    assert logged() == []


def test_v2_limit_less_usage_without_the_cache_that_can_go(tree: Tree) -> None:
    tree.member("0::/a\n")
    tree.group2("a", str(8 * GIB), str(6 * GIB), str(2 * GIB))
    assert tree.reader().read() == HostMemory(8 * GIB, 4 * GIB)
    assert tree.reader().used_share() == 0.5


def test_v1_limit_less_usage_without_the_cache_that_can_go(tree: Tree) -> None:
    tree.member("11:cpu,cpuacct:/other\n4:hugetlb,memory:/a\n0::/\n")
    tree.group1("a", str(8 * GIB), str(6 * GIB), str(1 * GIB))
    assert tree.reader().read() == HostMemory(8 * GIB, 3 * GIB)


def test_v2_mounted_beside_v1(tree: Tree) -> None:
    """The hybrid layout: version 2 is at `unified`."""
    tree.member("4:memory:/\n0::/a\n")
    tree.group2("unified/a", str(8 * GIB), str(2 * GIB))
    assert tree.reader().read() == HostMemory(8 * GIB, 6 * GIB)


@pytest.mark.parametrize("tight", ["a", "a/b", "a/b/c"])
def test_tightest_group_up_to_the_root_counts(tree: Tree, tight: str) -> None:
    tree.member("0::/a/b/c\n")
    for group in ("a", "a/b", "a/b/c"):
        if group == tight:
            tree.group2(group, str(4 * GIB), str(3 * GIB))
        else:
            tree.group2(group, "max", str(40 * GIB))
    assert tree.reader().read() == HostMemory(4 * GIB, 1 * GIB)


def test_roomier_group_may_be_the_fuller_one(tree: Tree) -> None:
    """The parent has the larger limit, and its other children have taken it."""
    tree.member("0::/a/b\n")
    tree.group2("a", str(20 * GIB), str(19 * GIB))
    tree.group2("a/b", str(10 * GIB), str(2 * GIB))
    assert tree.reader().read() == HostMemory(10 * GIB, 1 * GIB)
    assert tree.reader().used_share() == 0.95


def test_full_machine_counts_in_a_roomy_group(tree: Tree) -> None:
    tree.member("0::/a\n")
    tree.group2("a", str(32 * GIB), str(1 * GIB))
    reader = tree.reader(Machine(total=64 * GIB, available=16 * GIB))
    assert reader.read() == HostMemory(32 * GIB, 16 * GIB)
    assert reader.used_share() == 0.75


def test_limit_beyond_the_machine_is_none(tree: Tree) -> None:
    """Version 1 has no word for no limit, but a number close to 2^63."""
    tree.member("4:memory:/a\n")
    tree.group1("a", "9223372036854771712", str(1 * GIB))
    assert tree.reader().read() == HostMemory(64 * GIB, 48 * GIB)


def test_path_from_outside_a_container(tree: Tree) -> None:
    """Without a cgroup namespace the path is the host's, and the mount shows the own group."""
    tree.member("0::/docker/0123abc\n")
    tree.group2("", str(2 * GIB), str(1 * GIB))
    assert tree.reader().read() == HostMemory(2 * GIB, 1 * GIB)


def test_path_that_leads_out_of_a_namespace(tree: Tree) -> None:
    tree.member("0::/../../x\n")
    tree.write("memory.max", "1")
    tree.group2("x", str(2 * GIB), str(1 * GIB))
    assert tree.reader().read() == HostMemory(2 * GIB, 1 * GIB)


def test_usage_above_the_limit_leaves_nothing(tree: Tree) -> None:
    tree.member("0::/a\n")
    tree.group2("a", "1000", "1100")
    assert tree.reader().read() == HostMemory(1000, 0)
    assert tree.reader().used_share() == 1.0


def test_limit_of_zero_leaves_nothing(tree: Tree) -> None:
    tree.member("0::/a\n")
    tree.group2("a", "0", "0")
    assert tree.reader().read() == HostMemory(0, 0)
    assert tree.reader().used_share() == 1.0


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cgroup/a/memory.max", "lots\n"),
        ("cgroup/a/memory.max", "-1\n"),
        ("cgroup/a/memory.max", ""),
        ("cgroup/a/memory.max", "9" * 100_000),
        ("cgroup/a/memory.current", "1.5\n"),
        ("cgroup/a/memory.current", "\N{ARABIC-INDIC DIGIT ONE}"),
    ],
)
def test_damaged_group_is_left_out_with_one_line(
    tree: Tree, logged: Callable[[], list[str]], file: str, text: str
) -> None:
    tree.member("0::/a\n")
    tree.group2("a", str(8 * GIB), str(6 * GIB))
    tree.write(file, text)
    reader = tree.reader()
    for _ in range(3):
        assert reader.read() == HostMemory(64 * GIB, 48 * GIB)
    assert len(logged()) == 1
    assert "expected" in logged()[0]
    assert "\n" not in logged()[0]


def test_damaged_statistics_count_no_cache(tree: Tree, logged: Callable[[], list[str]]) -> None:
    tree.member("0::/a\n")
    tree.group2("a", str(8 * GIB), str(6 * GIB), "many")
    reader = tree.reader()
    for _ in range(2):
        assert reader.read() == HostMemory(8 * GIB, 2 * GIB)
    assert len(logged()) == 1


def test_damaged_membership_is_left_out_with_one_line(
    tree: Tree, logged: Callable[[], list[str]]
) -> None:
    tree.member("nonsense\n0:/\n\n0::/a\n")
    tree.group2("a", str(8 * GIB), str(6 * GIB))
    assert tree.reader().read() == HostMemory(8 * GIB, 2 * GIB)
    assert len(logged()) == 1


def test_real_memory_is_within_the_machine() -> None:
    memory = host_memory()
    assert 0 < memory.available <= memory.total <= psutil.virtual_memory().total


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_damaged_and_never_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "x")
    with pytest.raises(FileDamaged, match="to be a file"):
        read_text(tmp_path / "x", 10)


def test_endless_device_is_damaged() -> None:
    with pytest.raises(FileDamaged, match="to be a file"):
        read_text(Path("/dev/zero"), 10)


def test_text_is_read_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("0123456789")
    assert read_text(file, 10) == "0123456789"
    with pytest.raises(FileDamaged, match="at most 9 bytes"):
        read_text(file, 9)
    assert read_text(tmp_path / "missing", 9) is None
