"""Where the attention layers of a model run, and why (reference, `attention`).

A layer runs the flash kernels over pages in the memory of its die. Pages that cannot be allocated
there stand in host memory instead, and the layer is `host` until a later attempt succeeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pantheon.engine.residency.backoff import ATTEMPTS, Backoff


class HostReason(StrEnum):
    """Why a layer is not on its die: those of the reference's reasons that can occur here.

    There are no rings that wrap, and neither scratch memory nor slots that a layer would have to
    get for itself.
    """

    NO_FLASH_KERNELS = "no_flash_kernels"
    RING_ALLOC_FAILED = "ring_alloc_failed"


class PagesNotAllocated(Exception):
    """The pages of a layer did not fit on its die.

    Attributes:
        impossible: whether the die is too small for them, so that no later attempt can succeed.
    """

    def __init__(self, message: str, *, impossible: bool = False) -> None:
        super().__init__(message)
        self.impossible = impossible


@dataclass(frozen=True, slots=True)
class AttentionStatus:
    """Where the attention layers run (reference, `attention`).

    `ondie + host == total`; `total` counts the layers that a forward pass has reached.
    `reasons` tells for the layers on the host why, and is empty when there are none.
    """

    ondie: int
    host: int
    total: int
    gave_up: int = 0
    impossible: int = 0
    host_engagements: int = 0
    ring_alloc_failures: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Layer:
    """One layer. `reason` is None while it is on its die."""

    backoff: Backoff
    reason: HostReason | None = None
    impossible: bool = False


class AttentionLayers:
    """The attention layers of one model. Changed by one thread; `status` is for any."""

    def __init__(
        self,
        layers: int,
        *,
        flash: bool,
        clock: Callable[[], float],
        attempts: int = ATTEMPTS,
    ) -> None:
        """Nothing is allocated yet. Without flash kernels all layers are on the host, for good.

        Args:
            layers: how many there are, in the order of the model.
            flash: whether the model was compiled with flash kernels.
            clock: seconds that never go back.
            attempts: of allocating a layer's pages, one after another in vain.
        """
        self._flash = flash
        self._layers = [_Layer(Backoff(clock, attempts)) for _ in range(layers)]
        self._engagements = 0
        self._failures = 0
        if not flash:
            for layer in self._layers:
                self._engage_host(layer, HostReason.NO_FLASH_KERNELS)

    def __len__(self) -> int:
        return len(self._layers)

    def is_on_die(self, index: int) -> bool:
        """Whether a layer runs on its die, or has not been placed yet."""
        return self._layers[index].reason is None

    def may_try(self, index: int) -> bool:
        """Whether the pages of a layer are to be allocated on its die now."""
        layer = self._layers[index]
        return self._flash and (layer.reason is None or layer.backoff.due)

    @property
    def due_in_s(self) -> float | None:
        """Seconds until a layer on the host may try again; None where none ever will."""
        waits = [
            wait
            for layer in self._layers
            if layer.reason is HostReason.RING_ALLOC_FAILED
            and (wait := layer.backoff.due_in_s) is not None
        ]
        return min(waits, default=None)

    def allocated(self, index: int) -> None:
        """Note that a layer has its pages on the die."""
        layer = self._layers[index]
        layer.reason = None
        layer.impossible = False
        layer.backoff.succeeded()

    def refused(self, index: int, error: PagesNotAllocated) -> None:
        """Note that a layer did not get its pages there: it runs on the host."""
        layer = self._layers[index]
        self._failures += 1
        layer.impossible = error.impossible
        layer.backoff.failed(for_good=error.impossible)
        if layer.reason is None:
            self._engage_host(layer, HostReason.RING_ALLOC_FAILED)

    def status(self) -> AttentionStatus:
        """The layers as they are now."""
        layers = [(layer.reason, layer.backoff.gave_up, layer.impossible) for layer in self._layers]
        failed = [one for one in layers if one[0] is HostReason.RING_ALLOC_FAILED]
        reasons = Counter(reason.value for reason, _, _ in layers if reason is not None)
        return AttentionStatus(
            ondie=len(layers) - reasons.total(),
            host=reasons.total(),
            total=len(layers),
            gave_up=sum(gave_up for _, gave_up, _ in failed),
            impossible=sum(impossible for _, _, impossible in failed),
            host_engagements=self._engagements,
            ring_alloc_failures=self._failures,
            reasons=dict(reasons),
        )

    def _engage_host(self, layer: _Layer, reason: HostReason) -> None:
        layer.reason = reason
        self._engagements += 1
