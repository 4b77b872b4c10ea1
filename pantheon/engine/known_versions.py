"""Versions of weights, remembered between starts: hashing gigabytes takes seconds."""

from __future__ import annotations

import hashlib
import inspect
import time
from pathlib import Path
from typing import Final

from pantheon.engine.gguf import GGUFFile, weights_version
from pantheon.engine.programs import PrivateFolder

_SETTLED_NS: Final = 10 * 10**9
"""A file that was changed less than this ago may change again within one tick of its clock."""


def known_version(file: GGUFFile, folder: PrivateFolder | None, *, quantized: bool) -> int:
    """See `weights_version`; of files that were hashed before and have not changed, the same again.

    Args:
        folder: where versions are remembered; None remembers none.
    """
    if folder is None:
        return weights_version(file, quantized=quantized)
    # What is remembered was made by this very code.
    method = Path(inspect.getfile(weights_version)).read_bytes()
    facts = f"{file.identity} {quantized}".encode()
    name = f"weights-{hashlib.sha256(method + facts).hexdigest()}"
    remembered = folder.read(name)
    if remembered is not None and remembered.isdigit():
        return int(remembered)
    version = weights_version(file, quantized=quantized)
    last_change = max(changed for *_, changed in file.identity)
    if time.time_ns() - last_change > _SETTLED_NS:
        folder.write(name, str(version).encode())
    return version
