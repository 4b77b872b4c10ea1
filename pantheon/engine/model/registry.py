"""Which architectures there are: one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float, Int

from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model import llama
from pantheon.engine.model.config import ModelConfig, read_config
from pantheon.engine.model.kv_cache import ModelCache, Placement
from pantheon.engine.model.parameters import Parameters, read_parameters


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the runner needs of an architecture. Every callable but the readers is pure.

    Attributes:
        name: `general.architecture` of its files.
        read_config: the dimensions, from metadata.
        read_parameters: the weights; its callback is told layers read and layers in all.
        hidden_states: tokens to hidden states after the final norm, and the written cache.
        logits: hidden states to scores over the vocabulary.
        recurrent_shapes: for each recurrent layer the shape of one sequence's state; none for an
            architecture that only attends.
    """

    name: str
    read_config: Callable[[GGUFFile], ModelConfig]
    read_parameters: Callable[[GGUFFile, ModelConfig, Callable[[int, int], None]], Parameters]
    hidden_states: Callable[
        [Parameters, ModelConfig, Int[Array, "batch time"], Placement, ModelCache],
        tuple[Float[Array, "batch time hidden"], ModelCache],
    ]
    logits: Callable[
        [Parameters, ModelConfig, Float[Array, "batch hidden"]],
        Float[Array, "batch vocabulary"],
    ]
    recurrent_shapes: Callable[[ModelConfig], tuple[tuple[int, ...], ...]] = lambda _: ()


_ARCHITECTURES = (
    Architecture(
        name="llama",
        read_config=read_config,
        read_parameters=read_parameters,
        hidden_states=llama.hidden_states,
        logits=llama.logits,
    ),
)


def architecture_of(file: GGUFFile) -> Architecture:
    """Look up the architecture that a file names.

    Raises:
        GGUFError: the file names none, or one that is not known.
    """
    name = file.metadata.string("general.architecture")
    for architecture in _ARCHITECTURES:
        if architecture.name == name:
            return architecture
    known = ", ".join(architecture.name for architecture in _ARCHITECTURES)
    raise GGUFError(f"general.architecture must be one of: {known}; got {name!r}")
