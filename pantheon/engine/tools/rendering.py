"""A conversation with tools as plain messages, which any chat template can render."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pantheon.engine.tools.dialect import Dialect
from pantheon.engine.tools.replay import ToolResult, replayed_calls
from pantheon.engine.tools.tool import Tool

_KEPT: Final = ("role", "content", "reasoning_content")


def render_conversation(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Tool],
    dialect: Dialect,
    written: Callable[[str, object], str | None] = lambda content, calls: None,
) -> tuple[dict[str, Any], ...]:
    """Messages of role and content (and reasoning_content) alone.

    Tools are described in one system turn, merged with a leading system message. Calls become
    part of their assistant turn's content, and results that follow one another one user turn.
    Nothing raises whatever the history holds.

    Args:
        messages: role, content and, in assistant turns, tool_calls.
        tools: what is offered; none leaves the system message alone.
        dialect: the model's.
        written: gives an assistant turn as the model wrote it, by its content and tool_calls, or
            None where that is not known; it is then written as the dialect does.
    """
    rendered: list[dict[str, Any]] = []
    results: list[ToolResult] = []
    for message in messages:
        if message.get("role") == "tool":
            results.append(ToolResult(_text(message)))
            continue
        _add_results(rendered, results, dialect)
        plain = {key: message[key] for key in _KEPT if key in message}
        plain["content"] = _text(message)
        if message.get("role") == "assistant":
            sent = message.get("tool_calls")
            text = written(plain["content"], sent)
            if text is None:
                text = dialect.turn_text(plain["content"], replayed_calls(sent))
            plain["content"] = text
        rendered.append(plain)
    _add_results(rendered, results, dialect)
    if tools:
        leads = bool(rendered) and rendered[0].get("role") == "system"
        system = rendered.pop(0)["content"] if leads else None
        rendered.insert(0, {"role": "system", "content": dialect.system_text(system, tools)})
    return tuple(rendered)


def _add_results(
    rendered: list[dict[str, Any]], results: list[ToolResult], dialect: Dialect
) -> None:
    if results:
        rendered.append({"role": "user", "content": dialect.results_text(results)})
        results.clear()


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
