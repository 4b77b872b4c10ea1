"""Formatting generated modules, and comparing or writing the output folder."""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

STYLE = ("--isolated", "--line-length=100", "--target-version=py311")
RULES = "E,F,W,I,UP,B,SIM,RUF,PTH"


def formatted(source: str, name: str) -> str:
    """Fix and format a Python module with ruff, whatever the project's own settings are.

    Raises:
        RuntimeError: ruff found an error that it cannot fix; the message is what it printed.
    """
    format_command = ["format", "--quiet", *STYLE]
    check_command = ["check", "--quiet", "--fix", f"--select={RULES}", *STYLE]
    # Lines are as long as rules allow only after formatting, and fixes need formatting again.
    for arguments in (format_command, check_command, format_command):
        result = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, f"--stdin-filename={name}", "-"],
            input=source,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        if result.returncode != 0:
            raise RuntimeError(f"ruff refuses {name}:\n{result.stdout}{result.stderr}")
        source = result.stdout
    return source


def differences(folder: Path, files: Mapping[str, str]) -> str:
    """A unified diff that leads from what `folder` holds to `files`; empty when equal."""
    lines: list[str] = []
    for name in sorted(files.keys() | _present(folder)):
        path = folder / name
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        new = files.get(name, "")
        if old == new and path.is_file() == (name in files):
            continue
        lines += difflib.unified_diff(
            old.splitlines(keepends=True),
            new.splitlines(keepends=True),
            str(path) if path.is_file() else "/dev/null",
            str(path) if name in files else "/dev/null",
        )
        if not old and not new:
            lines.append(f"{path}: {'missing' if name in files else 'not generated'}\n")
    return "".join(lines)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Make `folder` hold exactly `files`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _present(folder) - files.keys():
        (folder / name).unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _present(folder: Path) -> set[str]:
    """Names of the files below `folder`, what running Python leaves there excepted."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
