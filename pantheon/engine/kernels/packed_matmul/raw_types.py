"""Types whose blocks the GPU kernels read as the file has them, and how they walk through a block.

A block is seen as `parts` of `units` x 16 values, each of which is unpacked with one shift: several
parts lie above each other in the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class RawType:
    """How one type of ggml packs its values (`ggml-common.h`).

    Attributes:
        values: of a block.
        size: bytes of a block.
        parts, units: see above.
    """

    values: int
    size: int
    parts: int
    units: int

    def blocks_of(self, row_bytes: int) -> int:
        """Blocks of a row.

        Raises:
            ValueError: a row is no whole number of blocks.
        """
        blocks, rest = divmod(row_bytes, self.size)
        if rest or not blocks:
            raise ValueError(f"row_bytes: expected a multiple of {self.size}, got {row_bytes}")
        return blocks


RAW_TYPES: Final[Mapping[str, RawType]] = MappingProxyType(
    {
        "Q4_0": RawType(values=32, size=18, parts=2, units=1),
        "Q4_1": RawType(values=32, size=20, parts=2, units=1),
        "Q8_0": RawType(values=32, size=34, parts=1, units=2),
        "Q3_K": RawType(values=256, size=110, parts=8, units=2),
        "Q4_K": RawType(values=256, size=144, parts=8, units=2),
        "Q5_K": RawType(values=256, size=176, parts=8, units=2),
        "Q6_K": RawType(values=256, size=210, parts=8, units=2),
    }
)
"""By their names in ggml."""


def raw_type(name: str) -> RawType:
    """The type with a name.

    Raises:
        ValueError: the kernels do not read it.
    """
    if name not in RAW_TYPES:
        raise ValueError(f"type: expected one of {', '.join(RAW_TYPES)}, got {name}")
    return RAW_TYPES[name]
