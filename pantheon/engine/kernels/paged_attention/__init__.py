"""Causal grouped-query attention over paged keys and values.

Implementations: `native` (C++, on CPUs where its library is there and not switched off),
`flash_decode` and `flash_prefill` (Pallas, on GPUs) and `online` (plain XLA, every platform).
`reference` is the definition that the others are tested against, `cases` are shared by tests and
benchmarks.
"""

from pantheon.engine.kernels.paged_attention.api import CHOSEN, paged_attention, write_pages

__all__ = ["CHOSEN", "paged_attention", "write_pages"]
