"""What a load takes beside the weights that it leaves: one tensor at the most."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.gguf import builder

_ROWS, _COLUMNS, _MATRICES = 16384, 1024, 8


def _model(path: Path, kind: int, row_bytes: int) -> Path:
    """Eight matrices, all zeros, of which no byte is stored."""
    size = _ROWS * row_bytes
    tensors = [
        builder.tensor(f"w{index}", [_COLUMNS, _ROWS], kind, index * size)
        for index in range(_MATRICES)
    ]
    path.write_bytes(
        builder.File([builder.text("general.architecture", "toy")], tensors, b"").pack()
    )
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 64 + _MATRICES * size)
    return path


@pytest.mark.parametrize(
    ("kind", "row_bytes", "options"),
    [
        (builder.Q4_0, _COLUMNS // 32 * 18, []),
        (builder.F16, _COLUMNS * 2, []),
        (builder.F16, _COLUMNS * 2, ["quantize"]),
        (builder.Q4_0, _COLUMNS // 32 * 18, ["native"]),
        (builder.F16, _COLUMNS * 2, ["native"]),
        (builder.F16, _COLUMNS * 2, ["quantize", "native"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_load_takes_one_tensor_beside_what_it_leaves(
    tmp_path: Path, kind: int, row_bytes: int, options: list[str]
) -> None:
    """In float32 the eight matrices would be 537 MB."""
    path = _model(tmp_path / "toy.gguf", kind, row_bytes)
    command = (sys.executable, "-m", "tests.engine.model.packed_load", str(path), *options)
    run = subprocess.run(command, capture_output=True, check=True, timeout=100, text=True)
    found = json.loads(run.stdout)
    row = _COLUMNS * 17 // 16 if "quantize" in options else row_bytes
    assert found["held"] == _MATRICES * _ROWS * row
    assert found["peak"] < found["held"] + _ROWS * row + (24 << 20)
