"""Sets JAX up for a server: where its programs are kept, and with which kernels they are run."""

from __future__ import annotations

import logging
from typing import Final

import jax

from pantheon.engine.compile_cache import discard_unfinished
from pantheon.engine.config import EngineConfig
from pantheon.engine.errors import EngineError
from pantheon.engine.kernels.native import native_library
from pantheon.engine.programs.environment import environment_digest
from pantheon.engine.programs.private_folder import FolderRefused, PrivateFolder
from pantheon.engine.programs.store import ProgramStore

_log: Final = logging.getLogger(__name__)


def open_programs(config: EngineConfig) -> ProgramStore | None:
    """Give JAX its folder, and begin to load what the first configured model will run.

    This imports JAX and nothing of the models, so that programs load while the rest is imported.

    Returns:
        The programs of earlier starts; None where none are kept, or where the folder is not the
        user's own, which is a line in the log.

    Raises:
        EngineError: the compile cache cannot be used.
    """
    folder = config.compile_cache_dir
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"the compile cache must be a folder that can be written, got {folder}: "
            f"{error.strerror}"
        ) from error
    discard_unfinished(folder)
    options = {
        "jax_compilation_cache_dir": str(folder),
        # Keep every program: a start with all of them cached compiles nothing.
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in options.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    try:
        private = PrivateFolder.open(folder / "programs")
    except FolderRefused as error:
        _log.warning("compiled programs are not kept: %s", error)
        return None
    if config.native:
        # A program that is loaded looks up the kernels that it calls.
        native_library()
    store = ProgramStore(private, environment_digest(config.xla_flags))
    if config.models:
        store.foresee(repr(config.models[0]))
    return store
