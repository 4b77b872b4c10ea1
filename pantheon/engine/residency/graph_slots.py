"""How many graph slots of a model are live (reference, `graphs`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum

from pantheon.engine.residency.captured_step import CapturedStep, Executable
from pantheon.engine.residency.thunks import CapturedLayers


class LayerKind(Enum):
    """What mixes the tokens of a layer."""

    ATTENTION = "attention"
    RECURRENT = "recurrent"


class SlotClass(StrEnum):
    """Classes of slots: of steps that decode several users, of the one-user path, and whole steps
    of a die."""

    BATCHED_ATTN = "batched_attn"
    BATCHED_SSM = "batched_ssm"
    SINGLE_SSM = "single_ssm"
    SEGMENT = "segment"


class _State(IntEnum):
    """Of a slot in one step; where steps differ, the highest counts."""

    LIVE = 0
    INELIGIBLE = 1
    PENDING = 2
    FAILED = 3
    GAVE_UP = 4


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Slots that a forward pass has reached. `failed` includes those that `gave_up`."""

    live: int
    total: int
    failed: int
    ineligible: int
    pending: int
    gave_up: int


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """The slots of a model.

    Attributes:
        captures, capture_failures: in the model's life.
        classes: those that were exercised.
    """

    counts: GraphCounts
    captures: int
    capture_failures: int
    classes: Mapping[SlotClass, GraphCounts]


class GraphSlots:
    """The slots of one model: one a layer, or one a layer and one a step on the one-user path."""

    def __init__(
        self,
        kinds: Sequence[LayerKind],
        steps: Sequence[CapturedStep],
        read: Callable[[Executable], CapturedLayers | None],
        *,
        batched: bool,
        earlier: tuple[int, int] = (0, 0),
    ) -> None:
        """Nothing is read before it is asked for.

        Args:
            kinds: of the layers, in order.
            steps: the decode steps.
            read: which layers an executable runs as graphs; None where that can't be told.
            batched: whether the batch scheduler runs; else there is the one-user path.
            earlier: captures and failures of steps that were compiled anew since.
        """
        self._earlier = earlier
        self._kinds = tuple(kinds)
        self._steps = tuple(steps)
        self._read = read
        self._batched = batched

    def status(self) -> GraphStatus:
        """The slots as they are now. May be called by any thread."""
        found: dict[tuple[SlotClass, int], _State] = {}
        for step in self._steps:
            if step.exercised:
                for slot, state in self._states(step).items():
                    found[slot] = max(state, found.get(slot, _State.LIVE))
        of_class: dict[SlotClass, Counter[_State]] = {}
        for (slot_class, _), state in found.items():
            of_class.setdefault(slot_class, Counter())[state] += 1
        return GraphStatus(
            counts=_counts(Counter(found.values())),
            captures=self._earlier[0] + sum(step.captures for step in self._steps),
            capture_failures=self._earlier[1] + sum(step.failures for step in self._steps),
            classes={one: _counts(of_class[one]) for one in SlotClass if one in of_class},
        )

    def _states(self, step: CapturedStep) -> dict[tuple[SlotClass, int], _State]:
        executable = step.captured
        if executable is not None:
            layers = self._read(executable)
            if layers is None:
                return dict.fromkeys(self._slots(), _State.PENDING)
            return {slot: _covered(slot, layers) for slot in self._slots()}
        if step.gave_up:
            return dict.fromkeys(self._slots(), _State.GAVE_UP)
        return dict.fromkeys(self._slots(), _State.FAILED if step.failed else _State.PENDING)

    def _slots(self) -> list[tuple[SlotClass, int]]:
        """Class and layer of each slot; the whole step counts as one layer."""
        if self._batched:
            classes = {
                LayerKind.ATTENTION: SlotClass.BATCHED_ATTN,
                LayerKind.RECURRENT: SlotClass.BATCHED_SSM,
            }
            return [(classes[kind], layer) for layer, kind in enumerate(self._kinds)]
        recurrent = [
            (SlotClass.SINGLE_SSM, layer)
            for layer, kind in enumerate(self._kinds)
            if kind is LayerKind.RECURRENT
        ]
        return [*recurrent, (SlotClass.SEGMENT, 0)]


def _covered(slot: tuple[SlotClass, int], layers: CapturedLayers) -> _State:
    slot_class, layer = slot
    live = layers.whole if slot_class is SlotClass.SEGMENT else layer in layers.layers
    return _State.LIVE if live else _State.INELIGIBLE


def _counts(states: Counter[_State]) -> GraphCounts:
    return GraphCounts(
        live=states[_State.LIVE],
        total=states.total(),
        failed=states[_State.FAILED] + states[_State.GAVE_UP],
        ineligible=states[_State.INELIGIBLE],
        pending=states[_State.PENDING],
        gave_up=states[_State.GAVE_UP],
    )
