"""Bounds of the parser that the files in tests/data/broken do not reach."""

import struct
import tracemalloc
from pathlib import Path

import pytest

from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.gguf.header import MAX_ARRAY_ITEMS
from tests.engine.gguf import builder
from tests.engine.gguf.builder import F32, Q4_0, Q4_K, File, tensor
from tests.golden import golden_file


def open_bytes(tmp_path: Path, raw: bytes) -> GGUFFile:
    path = tmp_path / "file.gguf"
    path.write_bytes(raw)
    return GGUFFile(path)


def refused(tmp_path: Path, raw: bytes, message: str) -> None:
    with pytest.raises(GGUFError, match=message):
        open_bytes(tmp_path, raw)


@pytest.mark.parametrize("version", [1, 4])
def test_versions_before_2_and_after_3_are_refused(tmp_path: Path, version: int) -> None:
    refused(tmp_path, File(version=version).pack(), f"must be 2 or 3, found {version}")


def test_version_2_is_read(tmp_path: Path) -> None:
    file = open_bytes(tmp_path, File(version=2, pairs=[builder.uint32("a", 7)]).pack())
    assert (file.version, file.metadata.uint("a")) == (2, 7)


@pytest.mark.parametrize("alignment", [0, 1, 3, 48, 1 << 31])
def test_alignment_must_be_a_sane_power_of_two(tmp_path: Path, alignment: int) -> None:
    raw = File(pairs=[builder.uint32("general.alignment", alignment)]).pack()
    refused(tmp_path, raw, f"power of two from 8 to 65536, found {alignment}")


def test_alignment_of_the_file_places_the_data(tmp_path: Path) -> None:
    raw = File(
        pairs=[builder.uint32("general.alignment", 256)],
        tensors=[tensor("a", [1], F32, 0), tensor("b", [1], F32, 256)],
        data=struct.pack("<f", 1.5) + bytes(252) + struct.pack("<f", 2.5),
        alignment=256,
    ).pack()
    file = open_bytes(tmp_path, raw)
    assert [file.tensor(name).packed.view("<f4")[0] for name in "ab"] == [1.5, 2.5]


@pytest.mark.parametrize(
    ("extents", "kind", "message"),
    [
        ([(1 << 63) - 1, 2, 1, 1], F32, "does not lie inside the file"),
        ([1, (1 << 42) + 1, 1, 1], F32, "does not lie inside the file"),
        ([(1 << 64) - 1] * 4, F32, "does not lie inside the file"),
        ([1 << 62, 4], F32, "does not lie inside the file"),
        ([100], Q4_K, "whole blocks of 256 values, found rows of 100"),
        ([33, 32], Q4_0, "whole blocks of 32 values, found rows of 33"),
        ([4, 0], F32, "zero dimension"),
        ([], F32, "1 to 4 dimensions, found 0"),
        ([1] * 5, F32, "1 to 4 dimensions, found 5"),
        ([4], 4, "unknown ggml type 4"),
        ([4], 36, "unknown ggml type 36"),
    ],
)
def test_impossible_extents_and_types_are_refused(
    tmp_path: Path, extents: list[int], kind: int, message: str
) -> None:
    """Products are exact: an extent product of 2^64 must not wrap to 0."""
    raw = File(tensors=[tensor("t", extents, kind, 0)], data=bytes(64)).pack()
    refused(tmp_path, raw, message)


@pytest.mark.parametrize("offset", [1 << 40, (1 << 64) - 32, 64])
def test_offsets_outside_the_file_are_refused(tmp_path: Path, offset: int) -> None:
    raw = File(tensors=[tensor("t", [4], F32, offset)], data=bytes(64)).pack()
    refused(tmp_path, raw, f"does not lie inside the file: offset {offset}")


def test_last_byte_decides(tmp_path: Path) -> None:
    raw = File(tensors=[tensor("t", [16], F32, 0)], data=bytes(64)).pack()
    assert open_bytes(tmp_path, raw).tensor("t").packed.size == 64
    refused(tmp_path, raw[:-1], "truncated")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (File(pairs=[builder.uint32("a", 1)] * 2), "'a' occurs twice"),
        (File(pairs=[builder.uint32("", 1)]), "key 0 is empty"),
        (File(pairs=[builder.text("a", b"\xff")]), "must be UTF-8"),
        (File(pairs=[builder.pair("a", builder.BOOL, b"\x02")]), "must be 0 or 1, found 2"),
        (File(pairs=[builder.array("a", builder.ARRAY, 1, bytes(64))]), "nested arrays"),
        (File(pairs=[builder.array("a", 77, 1, bytes(64))]), "unknown value type 77"),
        (File(pairs=[builder.uint32("k" * 65_536, 1)]), "at most 65535 bytes long"),
        (File(tensors=[tensor("", [1], F32, 0)], data=bytes(32)), "empty name"),
        (File(tensors=[tensor("n" * 65, [1], F32, 0)], data=bytes(32)), "at most 64 bytes"),
    ],
)
def test_malformed_entries_are_refused(tmp_path: Path, file: File, message: str) -> None:
    refused(tmp_path, file.pack(), message)


def test_bytes_of_a_string_array_are_checked_when_decoded(tmp_path: Path) -> None:
    raw = File(
        pairs=[builder.array("a", builder.STRING, 2, builder.string("x") + builder.string(b"\xc3"))]
    ).pack()
    with pytest.raises(GGUFError, match="item 1 of metadata key 'a' must be UTF-8"):
        open_bytes(tmp_path, raw).metadata.strings("a")


def test_number_of_array_items_is_bounded(tmp_path: Path) -> None:
    """A sparse file large enough for the count: the bound holds, not the file's size."""
    count = MAX_ARRAY_ITEMS + 1
    path = tmp_path / "sparse.gguf"
    path.write_bytes(File(pairs=[builder.array("a", builder.STRING, count, b"")]).pack())
    with path.open("r+b") as file:
        file.truncate(9 * count)
    with pytest.raises(GGUFError, match=f"says {count} items; at most {MAX_ARRAY_ITEMS}"):
        GGUFFile(path)


@pytest.mark.parametrize(
    "name", ["huge_kv_count", "huge_tensor_count", "huge_array_length", "string_length_overflow"]
)
def test_claimed_counts_are_not_allocated(name: str) -> None:
    """tests/data/broken: counts of 2^60 and more in a file of 46 kB."""
    path = golden_file(f"broken/{name}.gguf")
    tracemalloc.start()
    try:
        with pytest.raises(GGUFError):
            GGUFFile(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_opening_copies_no_tensor(tmp_path: Path) -> None:
    """A sparse file with a tensor of 8 GiB opens in next to no memory."""
    path = tmp_path / "large.gguf"
    head = File(tensors=[tensor("t", [1 << 20, 1 << 11], F32, 0)]).pack()
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) + (8 << 30))
    tracemalloc.start()
    try:
        with GGUFFile(path) as opened:
            assert opened.tensor("t").packed.nbytes == 8 << 30
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
