"""Builds the library of native kernels: `python native/build.py [FOLDER]`.

The compiler is that of CXX, else that which built Python, else c++, g++ or clang++. The headers
of JAX's FFI are those of the jaxlib that runs this script; the library's name says their version,
and every JAX with that version or a later one of the same major version can load it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

SOURCES: Final = Path(__file__).resolve().parent
PACKAGE: Final = Path("pantheon") / "engine" / "kernels" / "native"

_FLAGS: Final = (
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-pthread"),
    # Which products and sums are fused is part of what the kernels promise.
    "-ffp-contract=off",
    *("-Wall", "-Wextra", "-Wno-ignored-attributes", "-Wno-unknown-pragmas"),
)
_OWN_FLAGS: Final = {
    # Four lanes make eight vectors of a block: unrolled further, they only take longer to compile.
    "kernels_portable.cpp": ("-O2",),
    "whole_portable.cpp": ("-O2",),
}
_AVX512: Final = (
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"),
    "-mprefer-vector-width=512",
)
# By what the name of a source ends in.
_X86_FLAGS: Final = {
    "_avx2.cpp": ("-mavx2", "-mfma", "-mf16c"),
    "_avx512.cpp": _AVX512,
    "_vnni.cpp": (*_AVX512, "-mavx512vnni"),
}


class BuildError(Exception):
    """The library cannot be built here. The message is one line."""


def build(folder: Path) -> Path:
    """Compile the library into a folder.

    Raises:
        BuildError: there is no compiler or no jaxlib, or the compiler fails.
    """
    compiler, headers = _compiler(), _headers()
    sources = [path for path in sorted(SOURCES.glob("*.cpp")) if _is_for_this_processor(path.name)]
    with TemporaryDirectory() as scratch:
        objects = [Path(scratch) / f"{path.stem}.o" for path in sources]

        def compile_one(source: Path, target: Path) -> None:
            own = (*_OWN_FLAGS.get(source.name, ()), *_flags_of_set(source.name))
            flags = (*_FLAGS, *own, "-isystem", str(headers))
            _run([*compiler, *flags, "-c", str(source), "-o", str(target)])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, sources, objects))
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / f"libpantheon-ffi-{_ffi_version(headers)}.so"
        made = Path(scratch) / library.name
        _run([*compiler, "-shared", "-pthread", *map(str, objects), "-o", str(made)])
        # Moved in place whole: a server may have the old one mapped.
        partial = folder / f".{library.name}.{os.getpid()}"
        shutil.copyfile(made, partial)
        partial.replace(library)
    return library


def has_tools() -> bool:
    """Whether there is all that `build` needs."""
    try:
        _compiler()
        _headers()
    except BuildError:
        return False
    return True


def _is_for_this_processor(name: str) -> bool:
    return not _flags_of_set(name) or platform.machine() in ("x86_64", "AMD64")


def _flags_of_set(name: str) -> tuple[str, ...]:
    """What a source needs for its instruction set; nothing for one of every processor."""
    return next((flags for end, flags in _X86_FLAGS.items() if name.endswith(end)), ())


def _compiler() -> list[str]:
    configured = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or ""
    for command in (configured, "c++", "g++", "clang++"):
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
    raise BuildError("no C++ compiler was found; install one or name it in CXX")


def _headers() -> Path:
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError("jaxlib, whose headers are needed, is not installed")
    return Path(spec.submodule_search_locations[0]) / "include"


def _ffi_version(headers: Path) -> str:
    text = (headers / "xla" / "ffi" / "api" / "c_api.h").read_text(encoding="utf-8")
    numbers = re.findall(r"^#define XLA_FFI_API_(?:MAJOR|MINOR) (\d+)$", text, re.MULTILINE)
    return ".".join(numbers)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    if done.stderr:
        print(done.stderr, file=sys.stderr)


def main() -> int:
    """Build it where the package looks for it, or in the folder of the command line.

    Returns:
        0; 1 with the reason where it cannot be built.
    """
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES.parent / PACKAGE
    try:
        print(f"native kernels: {build(folder)}")
    except BuildError as error:
        print(f"native kernels: not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
