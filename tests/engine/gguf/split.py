"""Splits a model file as the gguf package does."""

from pathlib import Path

import gguf
import numpy as np


def split_model(source: Path, folder: Path, tensors_per_file: int) -> list[Path]:
    """Write the model anew over several files; their paths in order."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(
        folder / f"{source.stem}.gguf", architecture, split_max_tensors=tensors_per_file
    )
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kinds = field.types
        writer.add_key_value(name, field.contents(), kinds[0], kinds[-1] if kinds[1:] else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob(f"{source.stem}-*-of-*.gguf"))
