"""Which file a load may open: a regular one, where a root is set below it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from pantheon.engine.config import ModelOptions
from pantheon.engine.errors import LoadFailed, LoadFailure
from pantheon.engine.gguf import named_shards

_SPLIT_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")
_SHOWN_CHARACTERS = 200


def served_name(options: ModelOptions) -> str:
    """The id a model is served under: its own, else the file's name without its endings."""
    if options.name:
        return options.name
    name = options.path.name
    return _SPLIT_SUFFIX.sub("", name.removesuffix(".gguf")) or name


def check_is_file(path: Path) -> None:
    """Refuse what is no regular file before it is opened: a FIFO or a device could hang.

    Raises:
        LoadFailed: there is none.
    """
    try:
        found = path.is_file()
    except (OSError, ValueError):
        # A name too long for the file system, a folder that may not be searched, a NUL.
        found = False
    if not found:
        raise no_such_file(path)


def below_root(options: ModelOptions, root: Path) -> ModelOptions:
    """The options with the file's real path, every symbolic link resolved.

    Raises:
        LoadFailed: it does not lie below `root`. Nobody learns whether it exists.
    """
    try:
        real = Path(os.path.realpath(options.path, strict=True))
        top = os.path.realpath(root, strict=True)
        # The other files of a split model are opened by its name: they may be links as well.
        inside = all(
            Path(os.path.realpath(shard)).is_relative_to(top) for shard in named_shards(real)
        )
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise no_such_file(options.path)
    return replace(options, path=real, name=served_name(options))


def no_such_file(path: Path) -> LoadFailed:
    """The refusal of a path; what is not printable in it is escaped and its length bounded."""
    text = ascii(str(path))
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}... ({len(str(path))} characters)"
    return LoadFailed(LoadFailure.FILE_NOT_FOUND, f"there is no model file {text}")
