"""`python -m tests.server.fuzz`: schemathesis against a live gunicorn over the scripted engine.

All checks run, on valid and on invalid data. What is excepted and why is in schemathesis.toml,
whose operations a `--checks` here would overrule. Further arguments are passed on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.server.process import ROOT, start_server

SEED = "20240607"
MAX_EXAMPLES = "200"


def main() -> int:
    """Fuzz, and return schemathesis's exit status."""
    environment = {
        # A watch that the engine does not end would last as long as the fuzzer waits.
        "SCRIPTED_WATCH_MS": "10",
        # Every chat may bring a session of its own.
        "SCRIPTED_SESSIONS": "100000",
    }
    with start_server(environment=environment) as server:
        command = (
            *(str(Path(sys.executable).with_name("schemathesis")), "run"),
            "pantheon/generated/openapi.json",
            *("--url", server.url, "--seed", SEED, "--max-examples", MAX_EXAMPLES),
            "--continue-on-failure",
            *sys.argv[1:],
        )
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
