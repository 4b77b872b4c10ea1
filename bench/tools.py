"""Tools of a coding agent, as workloads offer them."""

from __future__ import annotations

from typing import Final

from pantheon.engine.tools import read_tools

TOOLS: Final = read_tools(
    [
        {
            "type": "function",
            "function": {
                "name": "edit",
                "description": "Replace a text in a file by another.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "filePath": {"type": "string"},
                        "oldString": {"type": "string"},
                        "newString": {"type": "string"},
                    },
                    "required": ["filePath", "oldString", "newString"],
                },
            },
        },
        {
            "type": "function",
            "function": {
                "name": "read",
                "description": "Read a file.",
                "parameters": {
                    "type": "object",
                    "properties": {"filePath": {"type": "string"}},
                    "required": ["filePath"],
                },
            },
        },
    ]
)
