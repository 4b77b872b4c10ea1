"""Reference files with something changed, written by the gguf package."""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

Value = bool | int | float | str | list[bool]


def rewritten(
    source: Path,
    target: Path,
    *,
    metadata: Mapping[str, Value | None] = {},
    tensors: Mapping[str, NDArray[np.float32] | None] = {},
) -> Path:
    """Copy a file of F32 tensors with other metadata and other tensors; None takes one out."""
    reader = gguf.GGUFReader(source)
    field = reader.get_field("general.architecture")
    assert field is not None
    writer = gguf.GGUFWriter(target, field.contents())
    copy_metadata(reader, writer, metadata)
    for tensor in reader.tensors:
        if tensor.name not in tensors:
            writer.add_tensor(tensor.name, np.asarray(tensor.data))
    for name, array in tensors.items():
        if array is not None:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def copy_metadata(
    reader: gguf.GGUFReader, writer: gguf.GGUFWriter, changed: Mapping[str, Value | None]
) -> None:
    """Give a writer the metadata of a file, some of it changed; None takes an entry out."""
    for key, found in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in changed:
            continue
        writer.add_key_value(key, found.contents(), found.types[0], _inner(found.types))
    for key, value in changed.items():
        if value is not None:
            writer.add_key_value(key, value, *_types(value))


def _inner(types: list[gguf.GGUFValueType]) -> gguf.GGUFValueType | None:
    return types[-1] if types[0] is gguf.GGUFValueType.ARRAY else None


def _types(value: Value) -> tuple[gguf.GGUFValueType, gguf.GGUFValueType | None]:
    kinds = gguf.GGUFValueType
    if isinstance(value, list):
        return kinds.ARRAY, kinds.BOOL
    if isinstance(value, bool):
        return kinds.BOOL, None
    if isinstance(value, int):
        return kinds.UINT32, None
    return (kinds.FLOAT32, None) if isinstance(value, float) else (kinds.STRING, None)
