"""Calls that a model made, or failed to make (reference, Tool calling)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNFINISHED_CALL: Final = "unfinished_call"
"""The answer ended inside the call."""
INVALID_ARGUMENTS: Final = "invalid_arguments"
"""The arguments are no JSON object and cannot be read as one."""
MALFORMED_CALL: Final = "malformed_call"
"""What stands behind complete arguments does not close the call."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete call.

    Attributes:
        id: unique in the conversation.
        name: the tool's.
        arguments: JSON text of an object.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCallError:
    """Why a call that the model began is not among the calls (`tool_call_error` of a choice).

    Attributes:
        code: one of this module's constants.
        message: for people.
        function: the called tool, where its name is known.
        parameter: the argument that was being written, if one was.
    """

    code: str
    message: str
    function: str | None = None
    parameter: str | None = None


def unfinished(function: str | None, parameter: str | None = None) -> ToolCallError:
    """The answer ended inside a call, or inside its opening where the function is not known."""
    where = f"the argument {parameter!r} of " if parameter is not None else ""
    what = f"a call of {function!r}" if function is not None else "the opening of a call"
    return ToolCallError(
        UNFINISHED_CALL, f"the answer ended inside {where}{what}", function, parameter
    )
