"""`weights_version` is a property of the weights alone (reference, `POST /admin/session/export`).

The number must be the same on every machine and start, and another for other weights.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.gguf import GGUFFile, weights_version
from tests.engine.gguf import builder
from tests.golden import golden_file

_DATA = bytes(range(64)) * 4
_PAIRS = [builder.text("general.architecture", "toy"), builder.uint32("toy.layers", 1)]
_TENSORS = [
    builder.tensor("a", [4, 8], builder.F32, 0),
    builder.tensor("b", [8, 4], builder.F32, 128),
]


def _version(
    folder: Path,
    data: bytes = _DATA,
    pairs: list[bytes] = _PAIRS,
    tensors: list[bytes] = _TENSORS,
    name: str = "model.gguf",
) -> int:
    path = folder / name
    path.write_bytes(builder.File(list(pairs), list(tensors), data).pack())
    with GGUFFile(path) as file:
        return weights_version(file)


def test_every_bit_of_the_tensor_data_counts(tmp_path: Path) -> None:
    versions = {_version(tmp_path)}
    for bit in range(8 * len(_DATA)):
        flipped = bytearray(_DATA)
        flipped[bit // 8] ^= 1 << bit % 8
        versions.add(_version(tmp_path, bytes(flipped)))
    assert len(versions) == 1 + 8 * len(_DATA)


def test_every_number_is_exact_in_json(tmp_path: Path) -> None:
    for seed in range(64):
        version = _version(tmp_path, np.random.default_rng(seed).bytes(256))
        assert 0 <= version < 2**53 and float(version) == version


def test_path_order_and_what_is_no_weight_do_not_count(tmp_path: Path) -> None:
    expected = _version(tmp_path)
    assert _version(tmp_path, name="other.gguf") == expected
    chat = [*_PAIRS, builder.text("tokenizer.chat_template", "{{ messages }}")]
    assert _version(tmp_path, pairs=chat) == expected
    assert _version(tmp_path, pairs=_PAIRS[::-1]) == expected
    assert _version(tmp_path, tensors=_TENSORS[::-1]) == expected


@pytest.mark.parametrize(
    ("pairs", "tensors"),
    [
        ([_PAIRS[0], builder.uint32("toy.layers", 2)], _TENSORS),
        ([builder.text("general.architecture", "toz"), builder.uint32("toz.layers", 1)], _TENSORS),
        (_PAIRS, [builder.tensor("a", [8, 4], builder.F32, 0), _TENSORS[1]]),
        (_PAIRS, [builder.tensor("c", [4, 8], builder.F32, 0), _TENSORS[1]]),
        (_PAIRS, [builder.tensor("a", [4, 8], builder.F16, 0), _TENSORS[1]]),
        (
            _PAIRS,
            [
                builder.tensor("b", [4, 8], builder.F32, 0),
                builder.tensor("a", [8, 4], builder.F32, 128),
            ],
        ),
    ],
    ids=["hyperparameter", "architecture", "shape", "name", "type", "swapped"],
)
def test_what_changes_the_cache_changes_the_number(
    tmp_path: Path, pairs: list[bytes], tensors: list[bytes]
) -> None:
    assert _version(tmp_path, pairs=pairs, tensors=tensors) != _version(tmp_path)


def test_a_model_in_parts_has_the_number_of_the_whole(tmp_path: Path) -> None:
    expected = _version(tmp_path)
    parts = []
    for index, tensor in enumerate(_TENSORS):
        tensor = tensor[:-8] + bytes(8)
        data = _DATA[index * 128 : index * 128 + 128]
        pairs = list(_PAIRS) if index == 0 else [_PAIRS[0]]
        parts.append(tmp_path / f"part{index}.gguf")
        parts[-1].write_bytes(builder.File(pairs, [tensor], data).pack())
    assert weights_version(*map(GGUFFile, parts)) == expected
    assert weights_version(*map(GGUFFile, parts[::-1])) == expected


def test_another_process_finds_the_same_number() -> None:
    """No hash seed, address or clock takes part."""
    path = golden_file("models/llama-minicpm5-f32.gguf")
    program = (
        "from pantheon.engine.gguf import GGUFFile, weights_version\n"
        f"print(weights_version(GGUFFile({str(path)!r})))"
    )
    run = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, check=True, timeout=60
    )
    with GGUFFile(path) as file:
        assert int(run.stdout) == weights_version(file)
