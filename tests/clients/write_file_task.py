"""What the clients of one API ask a real model: to write a file with the tools on offer."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

SYSTEM = "You work on files."
PROMPT = "Write a file."
RESULT = "Wrote 5 bytes."
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Write a text file.",
            "parameters": {
                "type": "object",
                "properties": {
                    # Short: a small model would fill a string to the limit.
                    "path": {"enum": ["greeting.txt", 'grüße an "alle".txt']},
                    "mode": {"type": "integer", "minimum": 0, "maximum": 511},
                    "overwrite": {"type": "boolean"},
                },
                "required": ["path", "mode"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "sing", "parameters": {"type": "object", "properties": {}}},
    },
]

_SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


def check_call(name: str, arguments: Any) -> None:
    """Whether it is a call of an offered tool that its schema allows."""
    jsonschema.validate(arguments, _SCHEMAS[name])


def task(url: str, model: str, answer_choice: str) -> str:
    """The argument of the programs beside this file.

    Args:
        url: of the server.
        model: its served name.
        answer_choice: `tool_choice` of the turn that brings the call's result.
    """
    return json.dumps(
        {
            "baseURL": f"{url}/v1",
            "model": model,
            "system": SYSTEM,
            "prompt": PROMPT,
            "tools": TOOLS,
            "result": RESULT,
            "answerChoice": answer_choice,
        }
    )
