"""Reading of GGUF model files with numpy: metadata, tensor views, conversion to float32."""

from pantheon.engine.gguf.dequantize import dequantize, unpack_blocks
from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.fingerprint import weights_version
from pantheon.engine.gguf.metadata import Metadata
from pantheon.engine.gguf.reader import GGUFFile
from pantheon.engine.gguf.shards import named_shards
from pantheon.engine.gguf.tensor import Tensor, TensorInfo
from pantheon.engine.gguf.tensor_types import TensorType, block_layout

__all__ = [
    "GGUFError",
    "GGUFFile",
    "Metadata",
    "Tensor",
    "TensorInfo",
    "TensorType",
    "block_layout",
    "dequantize",
    "named_shards",
    "unpack_blocks",
    "weights_version",
]
