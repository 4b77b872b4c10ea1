"""Kept results: one JSON line a run, in one file for each kind of run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""Of the checkout."""

RESULTS: Final = ROOT / "bench" / "results"


def keep(kind: str, record: Mapping[str, Any]) -> None:
    """Append a run to the results of this checkout, and say where."""
    print(f"kept in {append(RESULTS, kind, record).relative_to(ROOT)}")


def append(folder: Path, kind: str, record: Mapping[str, Any]) -> Path:
    """Append a run to `folder`/`kind`.jsonl; the file's path."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{kind}.jsonl"
    with file.open("a", encoding="utf-8") as output:
        output.write(json.dumps(record, allow_nan=False) + "\n")
    return file
