"""The opencode CLI in a project of its own, away from the settings of who runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.program import PACKAGES, run_program

# It can reach the server under test and nothing else: no lists of models, updates or plugins.
_OFFLINE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a configuration that knows one model.

    Attributes:
        folder: where the agent works.
        home: where its own files lie.
    """

    folder: Path
    home: Path


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the CLI printed.

    Attributes:
        events: of `--format json`, in order.
        errors: lines of its log on the level ERROR.
    """

    events: tuple[Mapping[str, Any], ...]
    errors: tuple[str, ...]

    def parts(self, kind: str) -> list[Any]:
        """The parts of all events of one kind, such as `text` or `tool_use`."""
        return [event["part"] for event in self.events if event["type"] == kind]


def make_project(folder: Path, url: str, model: str, *, window: int, output: int) -> Project:
    """Make a project whose agent may do everything with one model.

    Args:
        folder: is made, with all that belongs to the project.
        url: of the server.
        model: its served name.
        window: tokens that the agent plans with.
        output: `max_tokens` of its requests.
    """
    project = Project(folder / "project", folder / "home")
    project.folder.mkdir(parents=True)
    project.home.mkdir()
    limit = {"context": window, "output": output}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "unused"},
        "models": {model: {"limit": limit}},
    }
    configuration = {
        "provider": {"pantheon": provider},
        "enabled_providers": ["pantheon"],
        "model": f"pantheon/{model}",
        "permission": "allow",
    }
    (project.folder / "opencode.json").write_text(json.dumps(configuration), "utf-8")
    return project


def run_opencode(project: Project, message: str, seconds: float) -> Run:
    """`opencode run MESSAGE`, which must end with status 0.

    Raises:
        subprocess.TimeoutExpired: it takes longer than `seconds`.
    """
    command = [str(PACKAGES / ".bin" / "opencode"), "run", "--print-logs", "--format", "json"]
    folders = {
        f"XDG_{name}_HOME": str(project.home / name.lower())
        for name in ("CACHE", "CONFIG", "DATA", "STATE")
    }
    environment = {"HOME": str(project.home), **folders, **_OFFLINE}
    finished = run_program([*command, message], environment, project.folder, seconds)
    assert finished.status == 0, finished
    lines = finished.errors.splitlines()
    return Run(
        tuple(json.loads(line) for line in finished.output.splitlines() if line),
        tuple(line for line in lines if "level=ERROR" in line),
    )
