"""Whether a model fits into memory, before anything large is allocated. Plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pantheon.engine.capacity import FEWEST_CHECKPOINTS, NotEnoughMemory
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import ModelConfig
from pantheon.engine.model.gpu_products import PIECE_BYTES as GPU_PIECE_BYTES
from pantheon.engine.model.linear import PIECE_BYTES
from pantheon.engine.model.read import FLOAT32_BYTES, held_size
from pantheon.engine.runner import DECODE_BATCHES, PREFILL_CHUNK

USEFUL_WINDOW: Final = 512
"""Tokens of the smallest KV pool that a load is admitted for: a short question and its answer.
A model whose own window is shorter needs no more than that."""

PROGRAM_BYTES: Final = 448 << 20
"""What the tokenizer, the programs and their compilation take beside the arrays. Measured on CPU
at the peak: 230 MB for the smallest models and 410 MB for SmolLM2; the layers of a larger model
that only attends add little."""

LAYER_PROGRAM_BYTES: Final = 32 << 20
"""What each layer with a state or with experts adds to that. Measured on CPU while a model of 40
such layers was compiled: 1.6 GB in all."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that a model takes at the least, by what they are for.

    Attributes:
        weights: every tensor as it will be held, and the largest once more while it is made.
        cache: the smallest useful KV pool, and the fewest recurrent states.
        steps: activations of the largest step, the matrices that are float32 meanwhile, and the
            rows' counts and biases.
        programs: see `PROGRAM_BYTES`.
        largest: of the weights the largest tensor alone.
    """

    weights: int
    cache: int
    steps: int
    programs: int = PROGRAM_BYTES
    largest: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.steps + self.programs

    def on_each_die(self, dies: int) -> int:
        """What each of so many dies takes at the least: as if all came out even."""
        return (self.weights - self.largest + self.cache) // dies + self.steps

    def beside_dies(self) -> MemoryNeed:
        """What the host takes for a model on dies: what is read, a tensor at a time, and the
        programs."""
        return replace(self, weights=self.largest, cache=0, steps=0)

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


def memory_need(
    file: GGUFFile,
    config: ModelConfig,
    ctx_cap: int,
    *,
    quantize: bool = False,
    native: bool = False,
) -> MemoryNeed:
    """Estimate from the file's header alone.

    Args:
        ctx_cap: the operator's cap of the window in tokens, 0 for none.
        quantize: whether matrices become INT8.
        native: whether they are laid out for the native kernels.
    """
    sizes = [held_size(info, quantize=quantize, native=native) for info in file.tensors.values()]
    window = min(config.context_length, USEFUL_WINDOW, ctx_cap or USEFUL_WINDOW)
    states = (2 + FEWEST_CHECKPOINTS) * config.state_values
    return MemoryNeed(
        weights=sum(sizes) + max(sizes, default=0),
        largest=max(sizes, default=0),
        cache=window * config.kv_bytes_per_token + states * FLOAT32_BYTES,
        steps=_step_values(config) * FLOAT32_BYTES + _unpacked(file, config),
        programs=PROGRAM_BYTES + _large_layers(config) * LAYER_PROGRAM_BYTES,
    )


def _large_layers(config: ModelConfig) -> int:
    """Layers whose programs are large."""
    return config.layers if config.moe is not None else sum(config.recurrent)


def _unpacked(file: GGUFFile, config: ModelConfig) -> int:
    """Bytes of what is float32 at once inside a step: pieces of a matrix, or the three matrices
    of one expert."""
    experts = [info.shape for info in file.tensors.values() if len(info.shape) == 3]
    largest = max((rows * columns for _, rows, columns in experts), default=0)
    piece = GPU_PIECE_BYTES if config.implementation.is_gpu else PIECE_BYTES
    return 2 * piece + 3 * largest * FLOAT32_BYTES


def _step_values(config: ModelConfig) -> int:
    """Numbers of the largest step: residuals, projections and gates of a whole chunk; logits,
    their sorted and masked copies, counts and biases of every row; the states of one layer."""
    mixer = 2 * (config.heads + 2 * config.kv_heads) * config.head_dim
    experts = 0 if config.moe is None else config.moe.used * config.hidden
    states = 0
    if config.delta_net is not None:
        mixer = max(mixer, 8 * config.delta_net.channels)
        states = 3 * DECODE_BATCHES[-1] * config.state_values // max(sum(config.recurrent), 1)
    chunk = PREFILL_CHUNK * (4 * config.hidden + mixer + 3 * config.widest_inner + experts)
    rows = (DECODE_BATCHES[-1] + 1) * config.vocabulary * 8
    return chunk + rows + states


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
