"""What hosts say to each other, as msgspec structs: whatever else arrives is refused.

A message of the first host names the model by a number that it gave it. Arrays travel as their
bytes; their shapes and types are the model's.
"""

from __future__ import annotations

import msgspec

from pantheon.engine.model import Implementation
from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Told apart by the name of its class."""


class Hello(_Message, frozen=True):
    """A follower's first words.

    Attributes:
        process: its number.
        build: the commit that it runs: another one might compute something else.
        memory: bytes of each of its dies, in the order of its runtime.
    """

    process: int
    build: str
    memory: tuple[int, ...]


class Ready(_Message, frozen=True):
    """A follower has done what it was told for a model."""

    model: int


class Refused(_Message, frozen=True):
    """A follower can't, and why."""

    model: int
    reason: str


class Beat(_Message, frozen=True):
    """A follower is alive, whatever it computes."""


class StepFailed(_Message, frozen=True):
    """A step raised on a follower, which goes on in step but with states that mean nothing.

    Said once until `Reset`.
    """

    model: int
    reason: str


class Open(_Message, frozen=True):
    """Read the weights of a model. The file is looked for under the same path.

    Attributes:
        devices: what JAX calls the dies, in order.
        version: of the weights; another file of that name is refused.
    """

    model: int
    path: str
    ctx_cap: int
    quantize: bool
    precision: Precision
    implementation: Implementation
    devices: tuple[int, ...]
    version: int


class Start(_Message, frozen=True):
    """Allocate, and compile the steps."""

    model: int
    capacity: Capacity


class Close(_Message, frozen=True):
    """Give everything back, whether the model had started or not."""

    model: int


class Reset(_Message, frozen=True):
    """See `Runner.reset`; so for all that follow, which are its steps."""

    model: int


class StartRow(_Message, frozen=True):
    model: int
    row: int
    sampling: RowSampling


class CopyPage(_Message, frozen=True):
    model: int
    source: int
    target: int


class LoadState(_Message, frozen=True):
    model: int
    row: int
    slot: int | None


class SaveState(_Message, frozen=True):
    model: int
    row: int
    slot: int


class ReadPage(_Message, frozen=True):
    model: int
    page: int


class WritePage(_Message, frozen=True):
    model: int
    page: int
    content: tuple[bytes, ...]


class ReadState(_Message, frozen=True):
    model: int
    slot: int


class WriteState(_Message, frozen=True):
    model: int
    slot: int
    content: tuple[bytes, ...]


class Prefill(_Message, frozen=True):
    model: int
    tokens: tuple[int, ...]
    start: int
    pages: tuple[int, ...]
    row: int


class Decode(_Message, frozen=True):
    """See `Runner.decode`.

    Attributes:
        sampling: with one pair of each bias at the most: `StartRow` has brought them, and the
            step depends on whether there are any.
    """

    model: int
    rows: tuple[int, ...]
    positions: tuple[int, ...]
    pages: tuple[tuple[int, ...], ...]
    sampling: tuple[RowSampling, ...]
    masks: tuple[bytes | None, ...]
    fed: tuple[int | None, ...]
    taken: tuple[tuple[int, int], ...]


StepMessage = (
    Reset
    | StartRow
    | CopyPage
    | LoadState
    | SaveState
    | ReadPage
    | WritePage
    | ReadState
    | WriteState
    | Prefill
    | Decode
)
FromLeader = Open | Start | Close | StepMessage
FromFollower = Hello | Ready | Refused | Beat | StepFailed
