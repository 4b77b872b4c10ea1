"""What is known of a whole step for H200s before it has run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.text_table import text_table

PREFILL: Final = "prefill 128"
MEMORY_BYTES: Final = 141_000_000_000
"""Of an H200, of NVIDIA's data sheet."""

_HEAD: Final = (
    "model",
    "step",
    "dies",
    "layers",
    "arguments GB",
    "temporary MB",
    "results MB",
    "fits",
    "in graphs",
    "outside",
    "layers in graphs",
    "compiled s",
)


@dataclass(frozen=True, slots=True)
class WholeStep:
    """One step compiled for one H200, or for several of one host.

    Attributes:
        dies: how many it runs on; all bytes are those of one.
        layers, of_layers: that were compiled, and that the model has.
        argument_bytes: weights, keys and values, states and what the step is given.
        temporary_bytes: beside arguments and results.
        result_bytes: those that are no argument's memory.
        inside, outside: launches in command buffers and beside them, those of branches and loops
            among them.
        layers_captured: layers all of whose launches are inside; None where XLA does not say it.
        whole: whether nothing is outside.
        seconds: for tracing, lowering and compiling.
    """

    model: str
    kind: str
    step: str
    dies: int
    layers: int
    of_layers: int
    argument_bytes: int
    temporary_bytes: int
    result_bytes: int
    inside: int
    outside: int
    layers_captured: int | None
    whole: bool
    seconds: float

    @property
    def fits(self) -> bool:
        """Whether an H200 has that much memory."""
        total = self.argument_bytes + self.temporary_bytes + self.result_bytes
        return total <= MEMORY_BYTES

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"seconds": round(self.seconds, 1), "fits": self.fits}


def step_name(model: str, step: str, dies: int) -> str:
    """What a step is called."""
    return f"{model}, {step}" + (f" over {dies} dies" if dies > 1 else "")


def steps_table(steps: Sequence[WholeStep]) -> str:
    """Steps as a table for people."""
    return text_table([_HEAD, *map(_cells, steps)], left=2)


def faults(steps: Sequence[WholeStep]) -> list[str]:
    """What must not be: steps that do not fit, layers of a decode step outside of graphs."""
    found = []
    for one in steps:
        name = step_name(one.model, one.step, one.dies)
        if not one.fits:
            found.append(f"{name}: does not fit into {MEMORY_BYTES} bytes")
        if one.step == PREFILL:
            continue
        if one.layers_captured != one.layers:
            found.append(f"{name}: {one.layers_captured} of {one.layers} layers are graphs")
        if not one.whole:
            found.append(f"{name}: {one.outside} launches are outside of graphs")
    return found


def _cells(one: WholeStep) -> tuple[str, ...]:
    layers = "not told" if one.layers_captured is None else str(one.layers_captured)
    return (
        one.model,
        one.step,
        str(one.dies),
        str(one.layers) if one.layers == one.of_layers else f"{one.layers} of {one.of_layers}",
        f"{one.argument_bytes / 1e9:.2f}",
        f"{one.temporary_bytes / 1e6:.1f}",
        f"{one.result_bytes / 1e6:.3f}",
        "yes" if one.fits else "NO",
        str(one.inside),
        str(one.outside),
        layers,
        f"{one.seconds:.0f}",
    )
