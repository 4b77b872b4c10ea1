"""Causal grouped-query attention over paged keys and values.

Implementations, by platform: `online` (plain XLA, every platform). `reference` is the
definition that the others are tested against, `cases` are shared by tests and benchmarks.
"""

from pantheon.engine.kernels.paged_attention.api import paged_attention

__all__ = ["paged_attention"]
