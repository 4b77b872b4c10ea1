"""How a model is told of tools, writes calls and is given results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pantheon.engine.tools.parsing import CallParser
from pantheon.engine.tools.replay import ReplayedCall, ToolResult
from pantheon.engine.tools.tool import Tool


class Dialect(Protocol):
    """One dialect (reference, Tool calling). All are immutable."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    @property
    def openers(self) -> tuple[str, ...]:
        """Texts one of which every call begins with."""
        ...

    def system_text(self, system: str | None, tools: Sequence[Tool]) -> str:
        """The content of the one system turn.

        Args:
            system: content of a leading system message, or None.
            tools: one or more.
        """
        ...

    def turn_text(self, content: str, calls: Sequence[ReplayedCall]) -> str:
        """An assistant turn's content and its calls, as the model writes them."""
        ...

    def results_text(self, results: Sequence[ToolResult]) -> str:
        """The content of the user turn that brings results."""
        ...

    def parser(self, tools: Sequence[Tool]) -> CallParser:
        """A parser for one answer."""
        ...
