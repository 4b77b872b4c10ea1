"""Tool calling: offered tools, the dialects of models, and finding calls in answers."""

from pantheon.engine.tools.call import (
    INVALID_ARGUMENTS,
    MALFORMED_CALL,
    UNFINISHED_CALL,
    ToolCall,
    ToolCallError,
)
from pantheon.engine.tools.dialect import Dialect
from pantheon.engine.tools.dialects import dialect_for
from pantheon.engine.tools.parsing import (
    Arguments,
    CallClosed,
    CallFailed,
    CallOpened,
    CallParser,
    ParserEvent,
    Text,
    merged,
)
from pantheon.engine.tools.rendering import render_conversation
from pantheon.engine.tools.tool import InvalidTools, Tool, read_tools
from pantheon.engine.tools.written_turns import WrittenTurns

__all__ = [
    "INVALID_ARGUMENTS",
    "MALFORMED_CALL",
    "UNFINISHED_CALL",
    "Arguments",
    "CallClosed",
    "CallFailed",
    "CallOpened",
    "CallParser",
    "Dialect",
    "InvalidTools",
    "ParserEvent",
    "Text",
    "Tool",
    "ToolCall",
    "ToolCallError",
    "WrittenTurns",
    "dialect_for",
    "merged",
    "read_tools",
    "render_conversation",
]
