"""Where a model is computed: on the host, or on dies of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from pantheon.engine.admission import MemoryNeed
from pantheon.engine.dies import Binding, DieManager
from pantheon.engine.host_memory import host_memory
from pantheon.engine.model import ModelConfig, Parameters, Shards, promised_bytes
from pantheon.engine.model.read import bytes_by_device
from pantheon.engine.model.sharding import gathered_matrices
from pantheon.engine.runner.attention_pages import on_one_die

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OnHost:
    """On the default device, in the host's memory."""

    native: bool

    binding: None = None
    shards: None = None

    def free_bytes(self) -> int:
        """Memory that nothing has and, where the native kernels are used, nothing was promised."""
        return max(host_memory().available - (promised_bytes() if self.native else 0), 0)

    def local(self, config: ModelConfig) -> ModelConfig:
        """The dimensions of what one device computes."""
        return config

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While weights are read."""
        yield

    @property
    def device(self) -> Any:
        """The device of JAX that computes."""
        return jax.devices()[0]

    def pages_layout(self) -> jax.sharding.Sharding:
        """Where the pages of a layer are."""
        return on_one_die(self.device)

    def hold(self, held: Mapping[Any, int]) -> None:
        """Nobody asks who holds what of the host's memory."""

    def has_read(self, parameters: Parameters, progress: Callable[[str], None]) -> None:
        """Nothing is divided."""


@dataclass(frozen=True)
class OnDies:
    """On the dies of a binding."""

    binding: Binding
    shards: Shards

    def free_bytes(self) -> int:
        """Memory of the fullest die that is left beside what the model holds so far."""
        return self.binding.left_bytes()

    def local(self, config: ModelConfig) -> ModelConfig:
        """The dimensions of what one die computes, other than those that are the model's."""
        return self.shards.plan.local(config)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While weights are read: into the host's memory first, for each die has a part."""
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            yield

    @property
    def device(self) -> Any:
        """The first of its devices."""
        return self.binding.dies[0].device

    def pages_layout(self) -> jax.sharding.Sharding:
        """Where the pages of a layer are."""
        return self.shards.of_pages

    def hold(self, held: Mapping[Any, int]) -> None:
        """Tell the die manager what is held: bytes by device of JAX."""
        self.binding.hold({die.ordinal: held.get(die.device, 0) for die in self.binding.dies})

    def has_read(self, parameters: Parameters, progress: Callable[[str], None]) -> None:
        """Say what lies where."""
        self.hold(bytes_by_device(parameters))
        dies = self.binding.ordinals
        if len(dies) == 1:
            return
        whole = self.shards.plan.whole_parts(self.shards.config)
        if whole:
            progress(
                f"{', '.join(whole)}: not divided, every die has them whole; their number does "
                f"not come out even over {len(dies)} dies"
            )
        gathered = gathered_matrices(parameters.layers)
        if gathered:
            progress(
                f"{gathered} matrices are divided by rows, their inputs gathered: columns would be "
                "cut through packed blocks"
            )


Home = OnHost | OnDies


def bind_dies(
    dies: DieManager,
    name: str,
    ordinals: tuple[int, ...] | None,
    need: MemoryNeed,
    config: ModelConfig,
) -> OnDies:
    """Give a model its dies, until the binding is released.

    Raises:
        LoadFailed, InvalidRequest: see `DieManager.bind`.
        NotEnoughMemory: the host's does not suffice for what is read and compiled.
    """
    need.beside_dies().check(host_memory().available)
    binding = dies.bind(name, ordinals, need.on_each_die(len(ordinals or (0,))))
    try:
        shards = Shards.over([die.device for die in binding.dies], config)
    except BaseException:
        binding.release()
        raise
    _log.info("%s: on dies %s", name, ", ".join(map(str, binding.ordinals)))
    return OnDies(binding, shards)
