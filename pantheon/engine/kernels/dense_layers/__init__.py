"""The layers of a decoder that attends and feeds forward, by the native kernels in one call."""

from __future__ import annotations

from pantheon.engine.kernels.dense_layers.native import DenseLayer, DenseShape, dense_layers

__all__ = ["DenseLayer", "DenseShape", "dense_layers"]
