"""README and ARCHITECTURE say what the code says, so that they cannot go stale."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

from pantheon.model_options import MODEL_OPTIONS
from pantheon.settings import Settings

_ROOT = Path(__file__).parents[1]
_README = (_ROOT / "README.md").read_text("utf-8")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _rows(heading: str, *columns: str) -> list[list[str]]:
    """The rows of the table of these columns under a heading of README, without code quotes."""
    _, found, section = _README.partition(f"\n{heading}\n")
    assert found, f"README has no heading {heading!r}"
    lines = section.splitlines()
    start = next(index for index, line in enumerate(lines) if _cells(line) == list(columns))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip("`") for cell in _cells(line)])
    assert all(len(row) == len(columns) for row in rows)
    return rows


def test_settings_table_lists_every_declaration() -> None:
    """Each setting once, in order, with its flag, environment variable and default."""
    rows = _rows("## Settings", "Flag", "Environment variable", "Default", "Meaning")
    expected: list[tuple[str, str, str]] = []
    for _, declaration, default in Settings.declarations():
        shown = default if declaration.shown_default is None else declaration.shown_default
        text = str(int(shown) if isinstance(shown, bool) else shown)
        expected.append((declaration.flag or "", declaration.env, text))
    assert [(flag, env, default) for flag, env, default, _ in rows] == expected
    assert all(meaning for *_, meaning in rows)


def test_model_options_table_lists_every_option() -> None:
    """Each option of a model once, as it is written as a flag and inside `--model`."""
    columns = ("Flag", "Inside `--model`", "Default", "Meaning")
    rows = _rows("## Serving your own models", *columns)
    expected = {f"{name}=": f"--{name.replace('_', '-')}" for name in MODEL_OPTIONS}
    assert {option: flag for flag, option, *_ in rows} == expected | {"path=": "MODEL.gguf"}
    assert len(rows) == len(expected)


def test_route_table_lists_every_route() -> None:
    """Every operation of the spec, and the preflight."""
    document = json.loads((resources.files("pantheon.generated") / "openapi.json").read_text())
    routes = {f"{m.upper()} {path}" for path, item in document["paths"].items() for m in item}
    rows = _rows("## Routes", "Route", "What it does")
    assert {route for route, _ in rows} == routes | {"OPTIONS *"}
    assert len(rows) == len(routes) + 1


def test_decisions_name_tests_that_exist() -> None:
    text = (_ROOT / "ARCHITECTURE.md").read_text("utf-8")
    _, found, section = text.partition("\n## Decisions where the reference is silent\n")
    assert found
    named = re.findall(r"`([\w/]*test_\w+\.py)`", section.partition("\n## ")[0])
    assert named
    assert [name for name in named if not (_ROOT / "tests" / name).is_file()] == []
