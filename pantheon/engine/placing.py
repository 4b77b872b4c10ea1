"""Where a model is computed: on the host, or on dies of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from pantheon.engine.admission import MemoryNeed
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.die_memory import room_beside
from pantheon.engine.dies import Binding, DieManager
from pantheon.engine.errors import GenerationFailed
from pantheon.engine.host_memory import host_memory
from pantheon.engine.hosts import HostGroup, LeadingRunner
from pantheon.engine.hosts.messages import Open
from pantheon.engine.model import (
    Architecture,
    ModelConfig,
    Parameters,
    Shards,
    promised_bytes,
)
from pantheon.engine.model.read import bytes_by_device, held_bytes
from pantheon.engine.model.sharding import gathered_matrices
from pantheon.engine.runner import Capacity, Graphs, Runner, attention_pages
from pantheon.engine.runner.attention_pages import AttentionPages, on_one_die
from pantheon.engine.step_loop import StepLoop

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OnHost:
    """On the default device, in the host's memory."""

    native: bool

    binding: None = None
    shards: None = None
    ordinals: tuple[int, ...] = ()

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

    def open(
        self, options: ModelOptions, config: EngineConfig, dimensions: ModelConfig, version: int
    ) -> None:
        """Nobody else reads the weights."""

    def opened(self) -> None:
        """Nobody is waited for."""

    def runner(
        self,
        architecture: Architecture,
        config: ModelConfig,
        parameters: Parameters,
        capacity: Capacity,
        *,
        graphs: Graphs | None,
        batched: bool,
    ) -> Runner:
        """Allocate."""
        device = jax.devices()[0]
        pages = _pages(config, parameters, capacity, device, on_one_die(device))
        return Runner(
            architecture, config, parameters, capacity, graphs=graphs, batched=batched, pages=pages
        )

    def serves(self, loop: StepLoop) -> None:
        """Nobody can be lost."""

    def claim(self, size: int) -> None:
        """Nobody asks who holds what of the host's memory."""

    def hold(self, held: Mapping[Any, int]) -> None:
        """Nobody asks who holds what of the host's memory."""

    def has_read(self, parameters: Parameters, progress: Callable[[str], None]) -> None:
        """Nothing is divided."""


@dataclass(frozen=True)
class OnDies:
    """On the dies of a binding.

    Attributes:
        hosts: those that have some of them; None where all are of this process.
        model: by what number those know it.
    """

    binding: Binding
    shards: Shards
    hosts: HostGroup | None
    model: int

    @property
    def ordinals(self) -> tuple[int, ...]:
        """Ordinals of the dies."""
        return self.binding.ordinals

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

    def open(
        self, options: ModelOptions, config: EngineConfig, dimensions: ModelConfig, version: int
    ) -> None:
        """Have other hosts read the weights too."""
        if self.hosts is not None:
            self.hosts.tell(
                Open(
                    self.model,
                    str(options.path),
                    options.ctx_cap,
                    options.quantize,
                    config.precision,
                    dimensions.implementation,
                    tuple(device.id for device in self.shards.mesh.devices.flat),
                    version,
                )
            )

    def opened(self) -> None:
        """Wait for the other hosts.

        Raises:
            HostLost: see there.
        """
        if self.hosts is not None:
            self.hosts.wait_ready(self.model)

    def runner(
        self,
        architecture: Architecture,
        config: ModelConfig,
        parameters: Parameters,
        capacity: Capacity,
        *,
        graphs: Graphs | None,
        batched: bool,
    ) -> Runner:
        """Allocate, everywhere. Steps over several hosts are not replayed as graphs."""
        shards = self.shards
        if self.hosts is not None:
            return LeadingRunner(
                architecture,
                config,
                parameters,
                capacity,
                shards=shards,
                hosts=self.hosts,
                model=self.model,
            )
        device = self.binding.dies[0].device
        return Runner(
            architecture,
            config,
            parameters,
            capacity,
            shards=shards,
            graphs=graphs,
            batched=batched,
            pages=_pages(config, parameters, capacity, device, shards.of_pages),
        )

    def serves(self, loop: StepLoop) -> None:
        """From now on the loop is told when a host is gone."""
        if self.hosts is not None:
            self.hosts.when_lost(self.model, lambda why: loop.abandon(GenerationFailed(why)))

    def release(self) -> None:
        """Give the dies back, and end what other hosts have. Idempotent."""
        if self.hosts is not None:
            self.hosts.forget(self.model)
        self.binding.release()

    def claim(self, size: int) -> None:
        """Keep so many bytes of each die for what is allocated next, until `hold`."""
        self.binding.claim(size)

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
    hosts: HostGroup | None,
) -> OnDies:
    """Give a model its dies, until they are released.

    Args:
        hosts: the processes that follow this one.

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
    if hosts is None or all(die.is_local for die in binding.dies):
        return OnDies(binding, shards, None, 0)
    return OnDies(binding, shards, hosts, hosts.number())


def _pages(
    config: ModelConfig,
    parameters: Parameters,
    capacity: Capacity,
    device: Any,
    layout: jax.sharding.Sharding,
) -> AttentionPages | None:
    room = room_beside(device, held_bytes(parameters))
    return attention_pages(config, capacity, layout, room)
