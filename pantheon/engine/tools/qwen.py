"""The Qwen3-Coder dialect, as the published templates of Qwen3-Coder and Qwen3.5 write it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pantheon.engine.tools.parsing import CallParser
from pantheon.engine.tools.prose import WHITESPACE
from pantheon.engine.tools.replay import (
    ReplayedCall,
    ReplayedValue,
    ToolResult,
    as_model_wrote,
    spaced,
)
from pantheon.engine.tools.tags import Tag
from pantheon.engine.tools.tool import Tool
from pantheon.engine.tools.xml_parser import XmlCallParser
from pantheon.engine.tools.xml_syntax import XmlSyntax
from pantheon.engine.tools.xml_values import VerbatimReader

_NAME: Final = r"([^<>\n]{1,256})>"
_BEGUN_NAME: Final = r"([^<>\n]{0,256})"
_PARAMETER_CLOSE: Final = "</parameter>"

QWEN_SYNTAX: Final = XmlSyntax(
    function=Tag("<function=", _NAME, _BEGUN_NAME),
    function_close=Tag("</function>"),
    parameter=Tag("<parameter=", _NAME, _BEGUN_NAME),
    parameter_close=Tag(_PARAMETER_CLOSE),
    value=partial(VerbatimReader, _PARAMETER_CLOSE),
    wrapper=Tag("<tool_call>"),
    wrapper_close=Tag("</tool_call>"),
    between="\n",
    behind="\n</tool_call>",
)

_IDENTITY: Final = (
    "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks."
)
_EXAMPLE_START: Final = """\
<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
"""
_EXAMPLE_END: Final = """
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: """
_RULES: Final = """
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the \
function call, but NOT after
- If there is no function call available, answer the question like normal with your current \
knowledge and do not tell the user about function calls
</IMPORTANT>"""
_CODER_FORMAT: Final = (
    "\n\nIf you choose to call a tool ONLY reply in the following format with NO suffix:\n\n"
    f"{_EXAMPLE_START}value_2{_EXAMPLE_END}the tool calling block MUST begin with an opening "
    f"<tool_call> tag and end with a closing </tool_call> tag.{_RULES}"
)
_QWEN35_FORMAT: Final = (
    "\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    f"{_EXAMPLE_START}This is the value for the second parameter\nthat can span\nmultiple lines"
    f"{_EXAMPLE_END}an inner <function=...></function> block must be nested within "
    f"<tool_call></tool_call> XML tags{_RULES}"
)


class _QwenXml:
    """Calls and results, which both templates write alike."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "qwen3-coder-xml"

    @property
    def openers(self) -> tuple[str, ...]:
        return ("<tool_call>", "<function=")

    def turn_text(self, content: str, calls: Sequence[ReplayedCall]) -> str:
        if not calls:
            return content
        before = content.rstrip(WHITESPACE)
        return (f"{before}\n\n" if before else "") + "\n".join(map(_call_text, calls))

    def parser(self, tools: Sequence[Tool]) -> CallParser:
        return XmlCallParser(QWEN_SYNTAX, tools)


@dataclass(frozen=True, slots=True)
class QwenCoderXml(_QwenXml):
    """Tools as Qwen3-Coder's template describes them: behind the system message, in XML.

    Attributes:
        is_qwen: without a system message, say who the model is, as that template does.
    """

    is_qwen: bool = False

    def system_text(self, system: str | None, tools: Sequence[Tool]) -> str:
        if system is None and self.is_qwen:
            system = _IDENTITY
        described = "".join(map(_described, tools))
        text = f"# Tools\n\nYou have access to the following tools:\n\n<tools>{described}\n</tools>"
        return ("" if system is None else f"{system}\n\n") + text + _CODER_FORMAT

    def results_text(self, results: Sequence[ToolResult]) -> str:
        return "".join(f"{_result_text(result)}\n" for result in results)


@dataclass(frozen=True, slots=True)
class Qwen35Xml(_QwenXml):
    """Tools as Qwen3.5's template describes them: before the system message, in JSON."""

    def system_text(self, system: str | None, tools: Sequence[Tool]) -> str:
        described = "".join(f"\n{spaced(tool.definition)}" for tool in tools)
        text = (
            "# Tools\n\nYou have access to the following functions:\n\n"
            f"<tools>{described}\n</tools>{_QWEN35_FORMAT}"
        )
        behind = (system or "").strip()
        return f"{text}\n\n{behind}" if behind else text

    def results_text(self, results: Sequence[ToolResult]) -> str:
        return "\n".join(map(_result_text, results))


def _result_text(result: ToolResult) -> str:
    return f"<tool_response>\n{result.content}\n</tool_response>"


def _call_text(call: ReplayedCall) -> str:
    arguments = "".join(
        f"<parameter={key}>\n{_value_text(argument)}\n</parameter>\n"
        for key, argument in call.arguments.items()
    )
    return f"<tool_call>\n<function={call.name}>\n{arguments}</function>\n</tool_call>"


def _value_text(argument: ReplayedValue) -> str:
    value = argument.value
    if isinstance(value, str):
        return value
    # The templates write these words as Python does.
    return str(value) if value is None or isinstance(value, bool) else as_model_wrote(argument)


def _described(tool: Tool) -> str:
    function: Mapping[str, Any] = tool.definition["function"]
    parameters = tool.parameters if "parameters" in function else None
    lines = ["<function>", f"<name>{tool.name}</name>"]
    if "description" in function:
        lines.append(f"<description>{tool.description.strip()}</description>")
    lines.append("<parameters>")
    if isinstance(parameters, Mapping):
        properties = parameters.get("properties")
        if isinstance(properties, Mapping):
            for key, fields in properties.items():
                lines += _described_parameter(key, fields)
        lines += _other_members(parameters, ("type", "properties"))
    lines.append("</parameters>")
    lines += _other_members(function, ("type", "name", "description", "parameters"))
    lines.append("</function>")
    return "".join(f"\n{line}" for line in lines)


def _described_parameter(key: str, fields: Any) -> list[str]:
    lines = ["<parameter>", f"<name>{key}</name>"]
    if isinstance(fields, Mapping):
        if "type" in fields:
            lines.append(f"<type>{fields['type']}</type>")
        if "description" in fields:
            lines.append(f"<description>{str(fields['description']).strip()}</description>")
        lines += _other_members(fields, ("name", "type", "description"))
    return [*lines, "</parameter>"]


def _other_members(members: Mapping[str, Any], handled: Collection[str]) -> list[str]:
    return [
        f"<{key}>{spaced(value) if isinstance(value, Mapping | list | tuple) else value}</{key}>"
        for key, value in members.items()
        if key not in handled
    ]
