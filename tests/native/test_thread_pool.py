"""The thread pool by itself, with and without the compiler's search for data races."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_NATIVE = _HERE.parents[1] / "native"
_SCENES = _HERE / "thread_pool_scenes.cpp"
_NAMES = re.findall(r'^    \{"(\w+)"', _SCENES.read_text("utf-8"), re.MULTILINE)
_CONFIGURED = (sysconfig.get_config_var("CXX") or "").split()[:1]
_COMPILER = next(
    (found for name in (*_CONFIGURED, "c++", "g++", "clang++") if (found := shutil.which(name))),
    None,
)
pytestmark = pytest.mark.skipif(_COMPILER is None, reason="no C++ compiler was found")

_RACES = "-fsanitize=thread"


@pytest.fixture(scope="module", params=["plain", "races"])
def scenes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built program."""
    program = tmp_path_factory.mktemp("scenes") / request.param
    flags = ["-std=c++17", "-O1", "-g", "-pthread", f"-I{_NATIVE}", "-Wall", "-Wextra", "-Werror"]
    if request.param == "races":
        flags.append(_RACES)
    assert _COMPILER is not None
    sources = [
        str(_SCENES),
        *(str(_NATIVE / name) for name in ("thread_pool.cpp", "processors.cpp")),
    ]
    run = subprocess.run(
        [_COMPILER, *flags, *sources, "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    if run.returncode and request.param == "races" and "tsan" in run.stderr:
        pytest.skip("the compiler has no search for data races")
    assert run.returncode == 0, run.stderr
    return program


@pytest.mark.parametrize("name", _NAMES)
def test_scene(scenes: Path, name: str) -> None:
    """See the function of that name."""
    if scenes.name == "races" and name.startswith(("a_forked_child", "the_process_ends")):
        pytest.skip("the search for races follows no fork and no thread beyond the process's end")
    run = subprocess.run(
        [str(scenes), name], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_there_are_scenes() -> None:
    assert len(_NAMES) >= 7
