"""Compiled programs that outlive the process, so that a start neither traces nor compiles."""

from pantheon.engine.programs.environment import environment_digest
from pantheon.engine.programs.opening import open_programs
from pantheon.engine.programs.private_folder import FolderRefused, PrivateFolder
from pantheon.engine.programs.store import ProgramStore

__all__ = ["FolderRefused", "PrivateFolder", "ProgramStore", "environment_digest", "open_programs"]
