"""The forward pass: configuration from metadata, parameters, pure functions over them."""

from pantheon.engine.model.best_token import best_tokens
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.dense_stack import stacked
from pantheon.engine.model.implementations import (
    Choice,
    Implementation,
    chosen_line,
    implementation_for,
    platform_of,
)
from pantheon.engine.model.kv_cache import ModelCache
from pantheon.engine.model.native import native_missing, promised_bytes, stop_taking
from pantheon.engine.model.parameters import Parameters
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.registry import Architecture, architecture_of
from pantheon.engine.model.row_independence import computes_rows_alike
from pantheon.engine.model.sharding import Shards

__all__ = [
    "Architecture",
    "Choice",
    "Implementation",
    "ModelCache",
    "ModelConfig",
    "Parameters",
    "Shards",
    "WeightReader",
    "architecture_of",
    "best_tokens",
    "chosen_line",
    "computes_rows_alike",
    "implementation_for",
    "native_missing",
    "platform_of",
    "promised_bytes",
    "stacked",
    "stop_taking",
]
