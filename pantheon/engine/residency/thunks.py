"""Which layers of a compiled step the device replays as graphs, from what XLA says of it.

XLA writes three texts of an executable when it is told to dump (`--xla_dump_to`): the sequence of
its thunks after all passes, in which what is recorded together stands below a `kCommandBuffer`;
what each thunk was made of; and the optimised HLO, whose instructions name their scopes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_THUNK: Final = re.compile(r"^( *)(\d+): (k[A-Za-z]+)")
_COMMAND_BUFFER: Final = "kCommandBuffer"
_ONE_LAUNCH: Final = "kDynamicSliceFusion"
"""Of which XLA lists the kernel below it again, made of nothing that it names."""

_WRAPPERS: Final = frozenset({_COMMAND_BUFFER, "kSequential"})
_METADATA: Final = re.compile(
    r'thunk_info \{\s*(?:profile_annotation: "([^"]*)"\s*)?(?:thunk_id: (\d+)\s*)?\}'
)
_INSTRUCTION: Final = re.compile(r'^\s*(?:ROOT )?%([\w.-]+) = .*metadata=\{op_name="([^"]*)"')
_LAYER: Final = re.compile(r"\blayer_(\d+)\b")


@dataclass(frozen=True, slots=True)
class CapturedLayers:
    """What of a step is replayed.

    Attributes:
        layers: indices of those layers all of whose launches are in command buffers.
        whole: whether every launch of the step is.
    """

    layers: frozenset[int]
    whole: bool


def layer_scope(index: int) -> str:
    """The name of the scope in which a layer is traced."""
    return f"layer_{index}"


def captured_layers(sequence: str, metadata: str, hlo: str) -> CapturedLayers | None:
    """What XLA's texts say of one executable; None where they do not say it.

    Args:
        sequence: `*.thunk_sequence_after_thunk_passes.txt`.
        metadata: `*.thunk_metadata.txt`.
        hlo: the optimised module, as `as_text` of a compiled step gives it.
    """
    inside = launches(sequence)
    names, scopes = _names(metadata), _scopes(hlo)
    if not inside or any(thunk not in names for thunk in inside):
        return None
    of_layer: dict[int, list[bool]] = {}
    for thunk, is_inside in inside.items():
        scope = scopes.get(names[thunk])
        if scope is None and not is_inside:
            # It may be a layer's, which would then not be covered.
            return None
        layer = _LAYER.search(scope or "")
        if layer is not None:
            of_layer.setdefault(int(layer[1]), []).append(is_inside)
    captured = frozenset(layer for layer, launches in of_layer.items() if all(launches))
    return CapturedLayers(captured, whole=all(inside.values()))


def launches(sequence: str) -> Mapping[int, bool]:
    """Of each thunk that launches something, whether it stands below a command buffer."""
    inside: dict[int, bool] = {}
    # The indentation of the command buffer that is open.
    opened: int | None = None
    # That of the launch whose parts are none of their own.
    listed: int | None = None
    for line in sequence.splitlines():
        thunk = _THUNK.match(line)
        if thunk is None:
            continue
        depth, number, kind = len(thunk[1]), int(thunk[2]), thunk[3]
        if listed is not None and depth > listed:
            continue
        listed = depth if kind == _ONE_LAUNCH else None
        if opened is not None and depth <= opened:
            opened = None
        if kind == _COMMAND_BUFFER and opened is None:
            opened = depth
        if kind not in _WRAPPERS:
            inside[number] = opened is not None
    return inside


def _names(metadata: str) -> Mapping[int, str]:
    """The instruction that each thunk was made of."""
    return {int(number or 0): name for name, number in _METADATA.findall(metadata)}


def _scopes(hlo: str) -> Mapping[str, str]:
    """The scope of each instruction that has one."""
    found = (_INSTRUCTION.match(line) for line in hlo.splitlines())
    return {one[1]: one[2] for one in found if one is not None}
