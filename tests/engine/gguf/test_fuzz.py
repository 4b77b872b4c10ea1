"""Whatever the bytes are, reading them ends quickly, in a file or in a GGUFError."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pantheon.engine.gguf import GGUFError, GGUFFile, dequantize
from tests.golden import golden_file

OK = golden_file("broken/ok.gguf").read_bytes()
HEADER = 8192
"""Metadata and tensor table of ok.gguf end before this offset."""

INTERESTING = st.sampled_from(
    [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 61, (1 << 64) - 1]
)
MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, HEADER), st.binary(min_size=1, max_size=8)),
        st.tuples(st.integers(0, HEADER), INTERESTING.map(lambda n: n.to_bytes(8, "little"))),
        st.tuples(
            st.integers(0, HEADER), INTERESTING.map(lambda n: (n & 255).to_bytes(1, "little"))
        ),
    ),
    min_size=1,
    max_size=6,
)


def read_everything(path: Path) -> None:
    with GGUFFile(path) as file:
        for name, info in file.tensors.items():
            if info.size < 100_000:
                dequantize(file.tensor(name))
        for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
            file.metadata.strings(key)
        file.metadata.integers("tokenizer.ggml.token_type")
        file.metadata.uint("llama.block_count")


def check(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        read_everything(path)
    except GGUFError as error:
        assert str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8_000_000


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file.gguf"


@settings(
    max_examples=400, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(mutations=MUTATIONS)
def test_overwritten_bytes(scratch: Path, mutations: list[tuple[int, bytes]]) -> None:
    """ok.gguf with bytes of its header overwritten."""
    raw = bytearray(OK)
    for place, patch in mutations:
        raw[place : place + len(patch)] = patch
    check(scratch, bytes(raw))


@settings(
    max_examples=150, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.integers(0, HEADER), length=st.integers(1, 64), insert=st.binary(max_size=64))
def test_removed_and_inserted_bytes(scratch: Path, start: int, length: int, insert: bytes) -> None:
    """ok.gguf with a stretch of its header replaced by one of another length."""
    check(scratch, OK[:start] + insert + OK[start + length :])


@settings(
    max_examples=150, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(length=st.integers(0, len(OK) - 1))
def test_truncated_files_are_always_refused(scratch: Path, length: int) -> None:
    """ok.gguf cut anywhere: its last tensor ends with the file."""
    scratch.write_bytes(OK[:length])
    with pytest.raises(GGUFError):
        GGUFFile(scratch)


@settings(
    max_examples=150, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(raw=st.binary(max_size=200))
def test_arbitrary_bytes_after_a_good_start(scratch: Path, raw: bytes) -> None:
    check(scratch, b"GGUF\x03\x00\x00\x00" + raw)
