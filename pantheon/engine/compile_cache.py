"""JAX's folder of compiled programs, kept in order between starts."""

from __future__ import annotations

import logging
import zlib
from pathlib import Path
from typing import Final

_log: Final = logging.getLogger(__name__)

_PIECE_BYTES: Final = 64 * 1024
_ZLIB_FIRST_BYTE: Final = 0x78
_NEWEST: Final = 32
"""Entries looked at. What a killed process was writing is among the newest, one for each of its
threads that compiled."""


def discard_unfinished(folder: Path) -> None:
    """Remove the entries that a process did not finish writing because it was killed.

    JAX writes entries in place. It does without one that it cannot read, with a warning, but it
    never writes that one again, so every later start would compile the program anew. An entry is
    a zlib stream, whose end tells whether it is whole; anything else is left alone.
    """
    entries = []
    for path in folder.glob("*-cache"):
        try:
            entries.append((path.stat().st_mtime_ns, path))
        except OSError as error:
            _log.debug("another process has removed %s: %s", path, error)
    for _, path in sorted(entries, reverse=True)[:_NEWEST]:
        try:
            if _is_unfinished(path):
                path.unlink()
                _log.info("removed %s, which was not written to its end", path)
        except OSError as error:
            _log.warning("%s can neither be read nor removed: %s", path, error.strerror)


def _is_unfinished(path: Path) -> bool:
    stream = zlib.decompressobj()
    with path.open("rb") as file:
        piece = file.read(_PIECE_BYTES)
        if piece and piece[0] != _ZLIB_FIRST_BYTE:
            return False
        try:
            while piece and not stream.eof:
                stream.decompress(piece)
                piece = file.read(_PIECE_BYTES)
        except zlib.error:
            return True
    return not stream.eof
