"""The short causal convolution in front of a recurrent layer.

`reference` is the definition in plain XLA, `fused` a Pallas kernel, `cases` are shared by tests and
the table of compiled kernels.
"""

from pantheon.engine.kernels.causal_conv.api import CHOSEN, causal_conv

__all__ = ["CHOSEN", "causal_conv"]
