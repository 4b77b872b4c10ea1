"""Typed getters: what they accept, and that a refusal names key, expectation and finding."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from pantheon.engine.gguf import GGUFError, GGUFFile, Metadata
from tests.engine.gguf import builder


@pytest.fixture
def metadata(tmp_path: Path) -> Metadata:
    """One key of each kind."""
    path = tmp_path / "file.gguf"
    path.write_bytes(
        builder.File(
            pairs=[
                builder.uint32("uint", 7),
                builder.pair("negative", builder.INT32, struct.pack("<i", -3)),
                builder.pair("uint64", 10, struct.pack("<Q", 1 << 40)),
                builder.pair("float", builder.FLOAT32, struct.pack("<f", 0.5)),
                builder.pair("double", 12, struct.pack("<d", 0.25)),
                builder.pair("nan", builder.FLOAT32, struct.pack("<f", float("nan"))),
                builder.pair("inf", builder.FLOAT32, struct.pack("<f", float("inf"))),
                builder.pair("bool", builder.BOOL, b"\x01"),
                builder.text("string", "héllo"),
                builder.strings("strings", ["a", "", "ü"]),
                builder.array("integers", builder.INT32, 3, struct.pack("<3i", 1, -2, 3)),
                builder.array("floats", builder.FLOAT32, 2, struct.pack("<2f", 0.5, -1e9)),
                builder.array("nans", builder.FLOAT32, 2, struct.pack("<2f", 0.5, float("nan"))),
                builder.array("large", 10, 1, struct.pack("<Q", 1 << 63)),
            ]
        ).pack()
    )
    return GGUFFile(path).metadata


def test_values_are_read(metadata: Metadata) -> None:
    assert metadata.uint("uint") == 7
    assert metadata.uint("uint64", maximum=1 << 50) == 1 << 40
    assert metadata.float("float") == 0.5
    assert metadata.float("double") == 0.25
    assert metadata.boolean("bool") is True
    assert metadata.string("string") == "héllo"
    assert metadata.strings("strings") == ["a", "", "ü"]
    assert metadata.integers("integers").tolist() == [1, -2, 3]
    assert metadata.floats("floats").tolist() == [0.5, -1e9]
    assert "uint" in metadata
    assert "absent" not in metadata


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda m: m.uint("negative"), r"'negative' must be between 0 and \d+, found -3"),
        (lambda m: m.uint("uint", minimum=8), r"'uint' must be between 8 and \d+, found 7"),
        (lambda m: m.uint("uint", maximum=6), r"'uint' must be between 0 and 6, found 7"),
        (lambda m: m.uint("uint64"), "'uint64' must be between"),
        (lambda m: m.uint("float"), r"'float' must be an integer, found float32 0\.5"),
        (lambda m: m.uint("bool"), "'bool' must be an integer, found bool True"),
        (lambda m: m.uint("strings"), "'strings' must be an integer, found array of 3 string"),
        (lambda m: m.float("uint"), "'uint' must be a float, found uint32 7"),
        (lambda m: m.float("nan"), "'nan' must be a finite number, found nan"),
        (lambda m: m.float("inf"), "'inf' must be a finite number, found inf"),
        (lambda m: m.boolean("uint"), "'uint' must be a bool, found uint32 7"),
        (lambda m: m.string("uint"), "'uint' must be a string, found uint32 7"),
        (lambda m: m.strings("string"), "'string' must be an array of strings, found string"),
        (lambda m: m.strings("integers"), "must be an array of strings, found array of 3 int32"),
        (lambda m: m.integers("strings"), "must be an array of integers, found array of 3 string"),
        (lambda m: m.floats("integers"), "must be an array of floats, found array of 3 int32"),
        (lambda m: m.floats("nans"), "'nans' must hold finite numbers"),
        (lambda m: m.integers("large"), r"'large' holds integers above 2\^63-1"),
        (lambda m: m.uint("absent"), "'absent' is missing; expected an integer"),
        (lambda m: m.strings("absent"), "'absent' is missing; expected an array of strings"),
        (lambda m: m.optional_string("uint"), "'uint' must be a string, found uint32 7"),
        (lambda m: m.optional_uint("uint", minimum=8), "'uint' must be between 8"),
    ],
)
def test_wrong_values_are_refused(
    metadata: Metadata, read: Callable[[Metadata], object], message: str
) -> None:
    with pytest.raises(GGUFError, match=message):
        read(metadata)


def test_optional_getters_answer_none_for_absent_keys_only(metadata: Metadata) -> None:
    assert metadata.optional_uint("absent") is None
    assert metadata.optional_float("absent") is None
    assert metadata.optional_boolean("absent") is None
    assert metadata.optional_string("absent") is None
    assert metadata.optional_strings("absent") is None
    assert metadata.optional_integers("absent") is None
    assert metadata.optional_floats("absent") is None
    assert metadata.optional_uint("uint") == 7
    assert metadata.optional_float("float") == 0.5
    assert metadata.optional_boolean("bool") is True
    assert metadata.optional_string("string") == "héllo"
    assert metadata.optional_strings("strings") == ["a", "", "ü"]


def test_long_values_are_cut_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(builder.File(pairs=[builder.text("long", "x" * 100_000)]).pack())
    with pytest.raises(GGUFError) as caught:
        GGUFFile(path).metadata.uint("long")
    assert len(str(caught.value)) < 200
