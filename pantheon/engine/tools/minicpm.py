"""The MiniCPM dialect, as the published template of MiniCPM5 writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pantheon.engine.tools.parsing import CallParser
from pantheon.engine.tools.prose import WHITESPACE
from pantheon.engine.tools.replay import ReplayedCall, ReplayedValue, ToolResult, spaced
from pantheon.engine.tools.tags import Tag
from pantheon.engine.tools.tool import Tool
from pantheon.engine.tools.xml_parser import XmlCallParser
from pantheon.engine.tools.xml_syntax import XmlSyntax
from pantheon.engine.tools.xml_values import MarkupReader

_ATTRIBUTE: Final = (
    r"[ \t\r\n]{1,16}name[ \t\r\n]{0,16}=[ \t\r\n]{0,16}"
    r"""(?:"([^"<>]{1,256})"|'([^'<>]{1,256})')[ \t\r\n]{0,16}"""
)
_BEGUN_ATTRIBUTE: Final = (
    r"[ \t\r\n]{1,16}name[ \t\r\n]{0,16}=[ \t\r\n]{0,16}"
    r"""(?:"([^"<>]{0,256})"?|'([^'<>]{0,256})'?)[ \t\r\n]{0,16}"""
)
_BEGUN_REST: Final = r"[ \t\r\n][^<>]{0,400}"
_PARAMETER_CLOSE: Final = "</param>"

MINICPM_SYNTAX: Final = XmlSyntax(
    function=Tag("<function", f"{_ATTRIBUTE}/?>", f"(?:{_BEGUN_ATTRIBUTE}/?|{_BEGUN_REST})?"),
    function_close=Tag("</function>"),
    parameter=Tag("<param", f"{_ATTRIBUTE}>", f"(?:{_BEGUN_ATTRIBUTE}|{_BEGUN_REST})?"),
    parameter_close=Tag(_PARAMETER_CLOSE),
    value=partial(MarkupReader, _PARAMETER_CLOSE),
    wrapper=Tag("<tool_call>"),
    wrapper_close=Tag("</tool_call>"),
    alone="/>",
)

_PLACE: Final = "<tool_def_sep>"
"""Where a system message that holds it wants the tools."""
_GUIDELINES: Final = """\


Tool usage guidelines:
- You may call zero or more functions. If no function calls are needed, just answer normally and \
do not include any <function ... </function>.
- When calling a function, return an XML object within <function ... </function> using:
<function name="function-name"><param name="param-name">param-value</param></function>
- param-value may be multi-line. If it contains <, & or newline characters, wrap it in a CDATA \
block: <param name="param-name"><![CDATA[...multi-line value...]]></param>"""


@dataclass(frozen=True, slots=True)
class MiniCpmXml:
    """Attributes in double quotes; values that need it in CDATA; Python's literals."""

    @property
    def name(self) -> str:
        return "minicpm-xml"

    @property
    def openers(self) -> tuple[str, ...]:
        return ("<function name=",)

    def system_text(self, system: str | None, tools: Sequence[Tool]) -> str:
        described = "".join(f"\n{spaced(tool.definition)}" for tool in tools)
        text = (
            "# Tools\n\nYou are provided with function signatures within <tools></tools> XML "
            f"tags:\n<tools>{described}\n</tools>{_GUIDELINES}"
        )
        if system is None:
            return text
        return system.replace(_PLACE, text) if _PLACE in system else f"{system}\n\n{text}"

    def turn_text(self, content: str, calls: Sequence[ReplayedCall]) -> str:
        if not calls:
            return content
        before = content.rstrip(WHITESPACE)
        return (f"{before}\n" if before else "") + "\n".join(map(_call_text, calls))

    def results_text(self, results: Sequence[ToolResult]) -> str:
        return "\n".join(
            f"<tool_response>\n{result.content}\n</tool_response>" for result in results
        )

    def parser(self, tools: Sequence[Tool]) -> CallParser:
        return XmlCallParser(MINICPM_SYNTAX, tools)


def _call_text(call: ReplayedCall) -> str:
    arguments = "".join(
        f'<param name="{key}">{_value_text(argument)}</param>'
        for key, argument in call.arguments.items()
    )
    return f'<function name="{call.name}">{arguments}</function>'


def _value_text(argument: ReplayedValue) -> str:
    value = argument.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return argument.written
    if not isinstance(value, str) or not any(mark in value for mark in "<&\n"):
        return str(value)
    # The end of a section within the value is cut in two, so that it ends nothing.
    return f"<![CDATA[{value.replace(']]>', ']]]]><![CDATA[>')}]]>"
