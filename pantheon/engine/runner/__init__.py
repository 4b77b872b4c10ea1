"""The device side of one model: arrays, shape buckets, compiled steps."""

from pantheon.engine.runner.attention_pages import AttentionPages, attention_pages
from pantheon.engine.runner.buckets import DECODE_BATCHES, PREFILL_CHUNK
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.graphs import Graphs, graphs_of
from pantheon.engine.runner.runner import Runner
from pantheon.engine.runner.sampled import Sampled

__all__ = [
    "DECODE_BATCHES",
    "PREFILL_CHUNK",
    "AttentionPages",
    "Capacity",
    "Graphs",
    "Runner",
    "Sampled",
    "attention_pages",
    "graphs_of",
]
