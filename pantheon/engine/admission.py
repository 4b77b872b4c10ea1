"""Whether a model fits into memory, before anything large is allocated. Plain arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pantheon.engine.capacity import NotEnoughMemory
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import ModelConfig
from pantheon.engine.runner import DECODE_BATCHES, PREFILL_CHUNK

FLOAT32_BYTES: Final = 4

USEFUL_WINDOW: Final = 512
"""Tokens of the smallest KV pool that a load is admitted for: a short question and its answer.
A model whose own window is shorter needs no more than that."""

PROGRAM_BYTES: Final = 448 << 20
"""What the tokenizer, the programs and their compilation take beside the arrays. Measured on CPU
at the peak: 230 MB for the smallest models and 410 MB for SmolLM2; the layers of a larger model
add little, since a layer is compiled once."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that a model takes at the least, by what they are for.

    Attributes:
        weights: every tensor as it will be held, and the largest once more while it is made.
        cache: the smallest useful KV pool.
        steps: activations of the largest step, and the rows' counts and biases.
        programs: see `PROGRAM_BYTES`.
    """

    weights: int
    cache: int
    steps: int
    programs: int = PROGRAM_BYTES

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.steps + self.programs

    def check(self, available: int) -> None:
        """Compare with the bytes that may be taken.

        Raises:
            NotEnoughMemory: they do not suffice.
        """
        if self.total > available:
            raise NotEnoughMemory(
                f"the model needs about {_megabytes(self.total)} of memory "
                f"({_megabytes(self.weights)} of weights, {_megabytes(self.cache)} for the "
                f"smallest KV cache, {_megabytes(self.steps)} for its steps, "
                f"{_megabytes(self.programs)} to compile them), but only "
                f"{_megabytes(available)} are available; unload another model first"
            )


def memory_need(file: GGUFFile, config: ModelConfig, ctx_cap: int) -> MemoryNeed:
    """Estimate from the file's header alone.

    Args:
        ctx_cap: the operator's cap of the window in tokens, 0 for none.
    """
    sizes = [math.prod(info.shape) * FLOAT32_BYTES for info in file.tensors.values()]
    window = min(config.context_length, USEFUL_WINDOW, ctx_cap or USEFUL_WINDOW)
    return MemoryNeed(
        weights=sum(sizes) + max(sizes, default=0),
        cache=window * config.kv_values_per_token * FLOAT32_BYTES,
        steps=_step_values(config) * FLOAT32_BYTES,
    )


def _step_values(config: ModelConfig) -> int:
    """Numbers of the largest step: residuals, projections and gates of a whole chunk; logits,
    their sorted and masked copies, counts and biases of every row."""
    heads = (config.heads + 2 * config.kv_heads) * config.head_dim
    chunk = PREFILL_CHUNK * (4 * config.hidden + 2 * heads + 3 * config.inner)
    rows = (DECODE_BATCHES[-1] + 1) * config.vocabulary * 8
    return chunk + rows


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
