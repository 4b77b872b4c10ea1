"""What the two XML dialects differ in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pantheon.engine.tools.tags import Tag
from pantheon.engine.tools.xml_values import ValueReader


@dataclass(frozen=True, slots=True)
class XmlSyntax:
    """The tags of a dialect.

    Attributes:
        function: opens a call, with its name.
        function_close: closes it.
        parameter: opens an argument, with its key.
        parameter_close: closes it.
        value: reader of one argument's text.
        wrapper: stands around a call where the model does not forget it.
        wrapper_close: closes that.
        between: what stands between tags where the model writes the closing ones.
    """

    function: Tag
    function_close: Tag
    parameter: Tag
    parameter_close: Tag
    value: Callable[[], ValueReader]
    wrapper: Tag | None = None
    wrapper_close: Tag | None = None
    between: str = ""
