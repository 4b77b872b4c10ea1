"""ggml tensor types: ids, names, and bytes per block, from the tables of the `gguf` package."""

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from pantheon.engine.gguf.errors import GGUFError

TensorType = GGMLQuantizationType


def tensor_type(type_id: int, name: str) -> TensorType:
    """Type for the id stored in a file; `name` is the tensor's name, for the message.

    Raises:
        GGUFError: the id is not a type whose block layout is known (ids of removed types
            included).
    """
    try:
        found = TensorType(type_id)
    except ValueError:
        found = None
    if found is None or found not in GGML_QUANT_SIZES:
        known = ", ".join(f"{known.value} {known.name}" for known in GGML_QUANT_SIZES)
        raise GGUFError(
            f"tensor {name!r} has the unknown ggml type {type_id}; expected one of {known}"
        )
    return found


def block_layout(found: TensorType) -> tuple[int, int]:
    """(values per block, bytes per block) of a type."""
    values, size = GGML_QUANT_SIZES[found]
    return int(values), int(size)
