"""`python -m tests.server.fuzz`: schemathesis against a live gunicorn, every route of it.

First over the scripted engine, then, with fewer examples, over a real tiny model. All checks run,
on valid and on invalid data. What is excepted and why is in schemathesis.toml, whose operations a
`--checks` here would overrule. Further arguments are passed on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.server.models import serve_tiny
from tests.server.process import ROOT, Server, start_server

SEED = "20240607"
SCRIPTED_EXAMPLES = "200"
TINY_EXAMPLES = "25"

SCRIPTED = {
    # A watch that the engine does not end would last as long as the fuzzer waits.
    "SCRIPTED_WATCH_MS": "10",
    # Every chat may bring a session of its own.
    "SCRIPTED_SESSIONS": "100000",
}
TINY_OPTIONS = ",ctx_cap=96,max_sessions=100000,max_concurrent=8"
"""A small window keeps answers short where `max_tokens` does not."""

TINY = {
    # Only the scripted engine ends a watch: here all that name a session are refused.
    "PANTHEON_MAX_WATCHES": "0",
    # The fuzzer finds the path in a row: with a second model a chat would have to name one.
    "PANTHEON_MAX_MODELS": "1",
}


def main() -> int:
    """Fuzz; 0, or the exit status of the run of schemathesis that found something."""
    with start_server(environment=SCRIPTED) as server:
        status = _fuzz(server, SCRIPTED_EXAMPLES)
    if status:
        return status
    with serve_tiny(TINY_OPTIONS, **TINY) as server:
        return _fuzz(server, TINY_EXAMPLES)


def _fuzz(server: Server, examples: str) -> int:
    command = (
        *(str(Path(sys.executable).with_name("schemathesis")), "run"),
        "pantheon/generated/openapi.json",
        *("--url", server.url, "--seed", SEED, "--max-examples", examples),
        "--continue-on-failure",
        *sys.argv[1:],
    )
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    log = server.log.read_text("utf-8", "replace")
    if "Traceback (most recent call last)" in log:
        # A refusal with a 5xx of the reference looks like a defect on the wire, but not here.
        print(f"the server met a defect:\n{log}")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
