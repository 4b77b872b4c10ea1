"""The device side of one model: arrays, shape buckets, compiled steps."""

from pantheon.engine.runner.buckets import DECODE_BATCHES, PREFILL_CHUNK
from pantheon.engine.runner.runner import Capacity, Runner, Sampled

__all__ = [
    "DECODE_BATCHES",
    "PREFILL_CHUNK",
    "Capacity",
    "Runner",
    "Sampled",
]
