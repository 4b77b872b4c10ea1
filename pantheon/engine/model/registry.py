"""Which architectures there are: one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float, Int

from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model import (
    decoder,
    llama,
    phi3,
    qwen2,
    qwen3,
    qwen3moe,
    qwen3next,
    qwen35,
    qwen35moe,
)
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.kv_cache import ModelCache, Placement
from pantheon.engine.model.parameters import Parameters, ReadLayer, read_parameters
from pantheon.engine.model.read import WeightReader


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the engine needs of an architecture. Every callable but the readers is pure.

    Attributes:
        name: `general.architecture` of its files.
        read_config: the dimensions, from metadata.
        read_layer: the weights of one layer.
        hidden_states: tokens to hidden states after the final norm, and the written cache.
        logits: hidden states to scores over the vocabulary.
        recurrent_shapes: the shapes of what one sequence leaves in recurrent layers; none for an
            architecture that only attends.
        snapshots: whether sessions can be exported: whether all that a sequence leaves is in its
            pages and its recurrent states.
    """

    name: str
    read_config: Callable[[GGUFFile], ModelConfig]
    read_layer: ReadLayer
    hidden_states: Callable[
        [Parameters, ModelConfig, Int[Array, "batch time"], Placement, ModelCache],
        tuple[Float[Array, "batch time hidden"], ModelCache],
    ] = decoder.hidden_states
    logits: Callable[
        [Parameters, ModelConfig, Float[Array, "batch hidden"]],
        Float[Array, "batch vocabulary"],
    ] = decoder.logits
    recurrent_shapes: Callable[[ModelConfig], tuple[tuple[int, ...], ...]] = (
        decoder.recurrent_shapes
    )
    snapshots: bool = True

    def read_parameters(
        self, reader: WeightReader, config: ModelConfig, progress: Callable[[int, int], None]
    ) -> Parameters:
        """The weights; see `pantheon.engine.model.parameters.read_parameters`."""
        return read_parameters(reader, config, progress, self.read_layer)


_ARCHITECTURES = (
    Architecture("llama", llama.read_config, llama.read_layer),
    Architecture("phi3", phi3.read_config, phi3.read_layer),
    Architecture("qwen2", qwen2.read_config, qwen2.read_layer),
    Architecture("qwen3", qwen3.read_config, qwen3.read_layer),
    Architecture("qwen3moe", qwen3moe.read_config, qwen3moe.read_layer),
    Architecture("qwen3next", qwen3next.read_config, qwen3next.read_layer),
    Architecture("qwen35", qwen35.read_config, qwen35.read_layer),
    Architecture("qwen35moe", qwen35moe.read_config, qwen35moe.read_layer),
)


def architecture_named(name: str) -> Architecture:
    """The architecture of a name.

    Raises:
        GGUFError: it is not known.
    """
    for architecture in _ARCHITECTURES:
        if architecture.name == name:
            return architecture
    known = ", ".join(architecture.name for architecture in _ARCHITECTURES)
    raise GGUFError(f"general.architecture must be one of: {known}; got {name!r:.100}")


def architecture_of(file: GGUFFile) -> Architecture:
    """Look up the architecture that a file names.

    Raises:
        GGUFError: the file names none, or one that is not known.
    """
    return architecture_named(file.metadata.string("general.architecture"))
