"""Finds programs that an earlier start has compiled, and keeps those that this one compiles."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import jax

from pantheon.engine.programs import serialized
from pantheon.engine.programs.private_folder import PrivateFolder

_log: Final = logging.getLogger(__name__)

_KEY: Final = re.compile("program-[0-9a-f]{64}")
_MOST_FORESEEN: Final = 64
"""Programs that one load may announce."""


class ProgramStore:
    """The programs in one folder that fit one environment. Its methods may be called by any thread.

    A program is found by a key that covers all that it depends on. Making one of its file takes
    most of a second for a large program and holds no lock of the interpreter, so that `foresee`
    begins with it before the caller knows the keys: those that it used the last time.
    """

    def __init__(self, folder: PrivateFolder, environment: str) -> None:
        """Nothing is read yet.

        Args:
            environment: see `environment_digest`.
        """
        self._folder = folder
        self._environment = environment
        self._lock = threading.Lock()
        self._foreseen: dict[str, Future[jax.stages.Compiled | None]] = {}
        # One, beside the thread that reads the weights; XLA's own threads do the work.
        self._loading = ThreadPoolExecutor(1, thread_name_prefix="programs")

    @property
    def folder(self) -> PrivateFolder:
        """Where they are kept, and what else a start may find again."""
        return self._folder

    def key(self, *parts: str) -> str:
        """The name of the program that these parts and the environment determine."""
        return _digest("program", self._environment, *parts)

    def foresee(self, occasion: str) -> None:
        """Begin to load the programs that `remember` was given for the same occasion."""
        name = self._occasion(occasion)
        data = self._folder.read(name)
        if data is None:
            return
        keys = _keys(data)
        if keys is None:
            _log.warning("%s names no programs", name)
            return
        with self._lock:
            for key in keys[:_MOST_FORESEEN]:
                if key not in self._foreseen:
                    self._foreseen[key] = self._loading.submit(self._load, key)

    def remember(self, occasion: str, keys: Sequence[str]) -> None:
        """Note the programs that an occasion needs, in the order in which it needs them."""
        data = json.dumps(list(keys)).encode()
        if self._folder.read(self._occasion(occasion)) != data:
            self._folder.write(self._occasion(occasion), data)

    def find(self, key: str) -> Future[jax.stages.Compiled | None] | None:
        """The program of a key as soon as it is loaded, or None where it cannot be after all.

        Returns:
            None where there is no file of that key.
        """
        with self._lock:
            found = self._foreseen.pop(key, None)
            if found is None and self._folder.has(key):
                found = self._loading.submit(self._load, key)
            return found

    def keep(self, key: str, program: jax.stages.Compiled) -> None:
        """Write a program for later starts. One that cannot be written is a line in the log."""
        try:
            data = serialized.dump(program)
        # Whatever a backend says to what it cannot do, the program itself is here and works.
        except Exception as error:
            _log.warning("a compiled program cannot be kept: %s: %.200s", _kind(error), error)
            return
        self._folder.write(key, data)

    def forget(self) -> None:
        """Let go of what was foreseen and not asked for."""
        with self._lock:
            unwanted = tuple(self._foreseen.values())
            self._foreseen.clear()
        for future in unwanted:
            future.cancel()

    def close(self) -> None:
        """Load nothing more: who waits for a program is told that it was cancelled."""
        self._loading.shutdown(wait=False, cancel_futures=True)

    def _load(self, key: str) -> jax.stages.Compiled | None:
        data = self._folder.read(key)
        if data is None:
            return None
        try:
            return serialized.load(data)
        # The file is as it was written: what fails is of another JAX or machine after all.
        except Exception as error:
            _log.warning("a kept program cannot be loaded: %s: %.200s", _kind(error), error)
            return None

    def _occasion(self, occasion: str) -> str:
        return _digest("occasion", self._environment, occasion)


def _keys(data: bytes) -> list[str] | None:
    """The keys that `remember` wrote; None where it did not write this."""
    try:
        keys = json.loads(data)
    except ValueError:
        return None
    sound = isinstance(keys, list) and all(
        isinstance(key, str) and _KEY.fullmatch(key) for key in keys
    )
    return keys if sound else None


def _digest(kind: str, *parts: str) -> str:
    digest = hashlib.sha256()
    for part in (kind, *parts):
        digest.update(f"{len(part)} {part}".encode())
    return f"{kind}-{digest.hexdigest()}"


def _kind(error: Any) -> str:
    return type(error).__name__
