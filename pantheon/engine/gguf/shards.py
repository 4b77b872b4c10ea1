"""Models split over several files: how the files are named and what each says about itself.

Source: llama.cpp's `gguf-split`: `NAME-00001-of-0000N.gguf`, keys `split.no` (from 0),
`split.count` and `split.tensors.count` (of all files together).
"""

import re
from dataclasses import dataclass
from pathlib import Path

from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.metadata import Metadata

MAX_SHARDS = 1024

_NAME = re.compile(r"(?P<stem>.*)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Split:
    """What a file says about its place in a split model.

    Attributes:
        index: From 0.
        count: Files of the model; 1 for a whole one.
        tensors: Tensors of all files together; None where the file does not say.
    """

    index: int
    count: int
    tensors: int | None


def read_split(metadata: Metadata) -> Split:
    """The `split.*` keys; a file without them is whole.

    Raises:
        GGUFError: they are of the wrong type, out of range, or disagree.
    """
    count = metadata.optional_uint("split.count", maximum=MAX_SHARDS)
    if not count:
        return Split(0, 1, None)
    index = metadata.uint("split.no", maximum=count - 1)
    return Split(index, count, metadata.optional_uint("split.tensors.count"))


def shard_paths(first: Path, split: Split) -> tuple[Path, ...]:
    """The paths of all files of a split model, by the path of its first.

    Raises:
        GGUFError: another file was named, or the name does not say which it is.
    """
    if split.count == 1:
        return (first,)
    named = _NAME.fullmatch(first.name)
    if named is None or (int(named["part"]), int(named["count"])) != (split.index + 1, split.count):
        raise GGUFError(
            f"{first.name} says that it is file {split.index + 1} of {split.count} of a split "
            f"model; its name must end in {_ending(split.index, split.count)}"
        )
    if split.index:
        raise GGUFError(
            f"{first.name} is file {split.index + 1} of {split.count} of a split model; "
            f"name the first, {named['stem']}{_ending(0, split.count)}"
        )
    return tuple(
        first.with_name(named["stem"] + _ending(index, split.count)) for index in range(split.count)
    )


def named_shards(path: Path) -> tuple[Path, ...]:
    """The files that a path names by its ending, itself included; itself alone without one."""
    named = _NAME.fullmatch(path.name)
    if named is None or not 1 <= int(named["count"]) <= MAX_SHARDS:
        return (path,)
    count = int(named["count"])
    return tuple(path.with_name(named["stem"] + _ending(index, count)) for index in range(count))


def _ending(index: int, count: int) -> str:
    return f"-{index + 1:05d}-of-{count:05d}.gguf"
