"""What an unload gives back (scenario, load failure and unload leak memory)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import COMPILE_CACHE, golden_file

pytestmark = pytest.mark.long

_CYCLES = 20


@pytest.mark.timeout(600)
def test_memory_after_twenty_loads_is_what_it_was_after_three() -> None:
    """Resident memory within 2 %; no thread and no descriptor more; and the model that stays
    loaded neither traces nor compiles anything again, although caches are cleared beside it."""
    command = (
        sys.executable,
        "-m",
        "tests.engine.repeated_loads",
        str(golden_file("models/llama-minicpm5-f32.gguf")),
        str(COMPILE_CACHE),
        str(_CYCLES),
    )
    run = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=True,
        timeout=590,
    )
    found = json.loads(run.stdout.splitlines()[-1])
    assert len(found["resident"]) == _CYCLES
    assert found["resident"][-1] <= 1.02 * found["resident"][2], found["resident"]
    assert found["threads"][-1] <= found["threads"][2], found["threads"]
    assert found["files"][-1] <= found["files"][2], found["files"]
    assert all(found["traced_in_loads"]), "what counts traces must see them"
    assert not any(found["traced_in_answers"]), found["traced_in_answers"]
