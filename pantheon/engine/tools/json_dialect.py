"""The JSON dialect. No template is published for it; the texts around the calls are ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pantheon.engine.tools.json_parser import FENCE, JsonCallParser
from pantheon.engine.tools.parsing import CallParser
from pantheon.engine.tools.prose import WHITESPACE
from pantheon.engine.tools.replay import (
    ReplayedCall,
    ReplayedValue,
    ToolResult,
    as_model_wrote,
    spaced,
)
from pantheon.engine.tools.tool import Tool

_FORMAT: Final = """

To call a function, end your reply with one JSON block for each call, in this format:

```json
{"function": "example_function_name", "arguments": {"example_parameter": "value"}}
```

The arguments must be strict JSON and hold all required parameters. If no function call is \
needed, answer normally."""


@dataclass(frozen=True, slots=True)
class JsonDialect:
    """Fenced objects with a function and its arguments."""

    @property
    def name(self) -> str:
        return "json"

    @property
    def openers(self) -> tuple[str, ...]:
        return (f"{FENCE}json", FENCE, "{", "[")

    def system_text(self, system: str | None, tools: Sequence[Tool]) -> str:
        described = "".join(f"\n{spaced(tool.definition)}" for tool in tools)
        text = (
            "# Tools\n\nYou have access to the following functions:\n\n"
            f"<tools>{described}\n</tools>{_FORMAT}"
        )
        return text if system is None else f"{system}\n\n{text}"

    def turn_text(self, content: str, calls: Sequence[ReplayedCall]) -> str:
        if not calls:
            return content
        before = content.rstrip(WHITESPACE)
        return (f"{before}\n\n" if before else "") + "\n".join(map(_call_text, calls))

    def results_text(self, results: Sequence[ToolResult]) -> str:
        return "\n".join(
            f"<tool_response>\n{result.content}\n</tool_response>" for result in results
        )

    def parser(self, tools: Sequence[Tool]) -> CallParser:
        return JsonCallParser(tools)


def _call_text(call: ReplayedCall) -> str:
    values = {key: argument.value for key, argument in call.arguments.items()}
    arguments = as_model_wrote(ReplayedValue(values, call.written))
    return f'{FENCE}json\n{{"function": {spaced(call.name)}, "arguments": {arguments}}}\n{FENCE}'
