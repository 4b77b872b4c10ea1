"""The layers of a decoder that attends and feeds forward, by the native kernels in one call."""

from __future__ import annotations

from pantheon.engine.kernels.dense_layers.native import DenseShape, dense_layers
from pantheon.engine.kernels.dense_layers.stack import DenseLayer, DenseStack

__all__ = ["DenseLayer", "DenseShape", "DenseStack", "dense_layers"]
