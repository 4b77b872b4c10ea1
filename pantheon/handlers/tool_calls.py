"""Tools in requests and calls in answers (reference, Tool calling)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, UnsetType

from pantheon.engine import (
    Finished,
    InvalidRequest,
    InvalidTools,
    ToolCallArguments,
    ToolCallClosed,
    ToolCallOpened,
    ToolUse,
    read_tools,
)
from pantheon.generated.models import (
    ChatCompletionDelta,
    ChatCompletionParams,
    FinishReason,
    FunctionCall,
    FunctionCallDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallError,
)

CallEvent = ToolCallOpened | ToolCallArguments | ToolCallClosed


def read_tool_use(params: ChatCompletionParams) -> ToolUse | None:
    """The tools that a body offers; None where there are none, or `tool_choice` is `none`.

    Raises:
        InvalidRequest: a tool breaks a rule.
    """
    choice = params.tool_choice
    if choice == "none" or isinstance(params.tools, UnsetType):
        return None
    try:
        tools = read_tools(params.tools)
    except InvalidTools as error:
        raise InvalidRequest(str(error)) from error
    if not tools:
        return None
    name = _named(choice) if isinstance(choice, dict) else None
    return ToolUse(tools, required=choice == "required", name=name)


def _named(choice: dict[str, Any]) -> str | None:
    """The function that an object names; one that names none asks for nothing."""
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


@dataclass(slots=True)
class CollectedCalls:
    """The calls of one choice.

    Attributes:
        complete: those that are closed, in order.
    """

    complete: list[ToolCall] = field(default_factory=list)
    _opened: ToolCallOpened | None = None
    _arguments: list[str] = field(default_factory=list)
    _has_failed: bool = False

    @property
    def has_unfinished(self) -> bool:
        """Whether a call was opened that is not closed; asked for once the choice has ended."""
        return self._has_failed or self._opened is not None

    def add(self, event: CallEvent) -> None:
        """Take in one event."""
        match event:
            case ToolCallOpened():
                self._has_failed = self.has_unfinished
                self._opened = event
                self._arguments = []
            case ToolCallArguments(_, text):
                self._arguments.append(text)
            case ToolCallClosed() if self._opened is not None:
                function = FunctionCall(name=self._opened.name, arguments="".join(self._arguments))
                self.complete.append(ToolCall(id=self._opened.id, function=function))
                self._opened = None


def reported_reason(end: Finished, calls: CollectedCalls, *, streamed: bool) -> FinishReason:
    """The `finish_reason` of a choice.

    `tool_calls` where there is one, unless the model was looping. A stream whose deltas hold the
    beginning of a call that failed must not say that its calls are to be made.
    """
    if end.finish_reason == "repetition_loop" or not calls.complete:
        return end.finish_reason
    return end.finish_reason if streamed and calls.has_unfinished else "tool_calls"


def call_error(end: Finished) -> ToolCallError | UnsetType:
    """The `tool_call_error` of a choice."""
    error = end.tool_call_error
    if error is None:
        return UNSET
    return ToolCallError(
        code=error.code,
        message=error.message,
        function=UNSET if error.function is None else error.function,
        parameter=UNSET if error.parameter is None else error.parameter,
    )


def call_delta(event: CallEvent) -> ChatCompletionDelta | None:
    """The delta that tells of an event; None for the end of a call, which has none."""
    match event:
        case ToolCallOpened(index, call_id, name):
            part = ToolCallDelta(
                index=index,
                id=call_id,
                type="function",
                function=FunctionCallDelta(name=name, arguments=""),
            )
        case ToolCallArguments(index, text):
            part = ToolCallDelta(index=index, function=FunctionCallDelta(arguments=text))
        case ToolCallClosed():
            return None
    return ChatCompletionDelta(tool_calls=[part])
