"""The gated delta rule: a recurrent state of fast weights, read and corrected by each token.

Implementations: `fused_step` and `fused_chunks` (Pallas, on GPUs) and `chunked` (plain XLA, every
platform). `reference` is the definition that the others are tested against, `cases` are shared by
tests and benchmarks.
"""

from pantheon.engine.kernels.gated_delta_rule.api import CHOSEN, gated_delta_rule

__all__ = ["CHOSEN", "gated_delta_rule"]
