"""`python -m codegen --check`: the committed files follow the spec, and any difference is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codegen import output
from codegen.__main__ import ROOT, main
from codegen.document import load
from codegen.render import generate

SPEC = ROOT / "openapi" / "pantheon.yaml"
COMMITTED = ROOT / "pantheon" / "generated"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(generate(load(SPEC)))


def test_committed_files_follow_the_spec(files: dict[str, str]) -> None:
    assert output.differences(COMMITTED, files) == ""


def test_generation_is_deterministic(files: dict[str, str]) -> None:
    """Also under another hash seed and in another working directory."""
    code = "import sys; from pathlib import Path; from codegen.document import load; " + (
        "from codegen.render import generate; "
        "sys.stdout.buffer.write(repr(dict(generate(load(Path(sys.argv[1]))))).encode())"
    )
    again = subprocess.run(
        [sys.executable, "-c", code, str(SPEC)],
        env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7", "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        check=True,
    )
    assert again.stdout.decode() == repr(files)


def test_check_exits_1_and_prints_an_edit(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    output.write(tmp_path, files)
    edited = tmp_path / "routes.py"
    edited.write_text(edited.read_text().replace("resp.status = 429", "resp.status = 430"))
    before = edited.read_text()
    assert main(["--check", "--output", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "-                resp.status = 430" in printed
    assert "+                resp.status = 429" in printed
    assert edited.read_text() == before, "--check must not write"


def test_missing_and_extra_files_are_differences(tmp_path: Path, files: dict[str, str]) -> None:
    output.write(tmp_path, files)
    assert output.differences(tmp_path, files) == ""
    (tmp_path / "models.py").unlink()
    assert "+class ChatCompletion(Struct" in output.differences(tmp_path, files)
    output.write(tmp_path, files)
    (tmp_path / "leftover.py").write_text("x = 1\n")
    assert "-x = 1" in output.differences(tmp_path, files)
    (tmp_path / "leftover.py").write_text("")
    assert "leftover.py: not generated" in output.differences(tmp_path, files)


def test_writing_removes_what_is_no_longer_generated(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / "leftover.py").write_text("x = 1\n")
    output.write(tmp_path, files)
    assert {path.name for path in tmp_path.iterdir()} == files.keys()


def test_generated_code_imports_only_falcon_msgspec_and_the_standard_library(
    files: dict[str, str],
) -> None:
    allowed = {"falcon", "msgspec", "__future__", *sys.stdlib_module_names}
    for name, text in files.items():
        imported = {
            line.split()[1].split(".")[0]
            for line in text.splitlines()
            if name.endswith(".py") and line.startswith(("import ", "from ")) and " ." not in line
        }
        assert imported <= allowed, name
        assert name == "routes.py" or "falcon" not in imported, name


def test_descriptions_become_docstrings(files: dict[str, str]) -> None:
    assert '    """Prefill rate, measured once it can be."""' in files["models.py"]
    assert '        """List the probed accelerator dies' in files["operations.py"]
