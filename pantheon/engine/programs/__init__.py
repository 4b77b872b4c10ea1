"""Compiled programs that outlive the process, so that a start neither traces nor compiles."""

from pantheon.engine.programs.environment import environment_digest
from pantheon.engine.programs.opening import open_programs
from pantheon.engine.programs.private_folder import FolderRefused, PrivateFolder
from pantheon.engine.programs.store import ProgramStore
from pantheon.engine.programs.uncached import without_cache_of_jax

__all__ = [
    "FolderRefused",
    "PrivateFolder",
    "ProgramStore",
    "environment_digest",
    "open_programs",
    "without_cache_of_jax",
]
