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
        wrapper: may stand around a call.
        wrapper_close: closes that.
        between: what stands between tags where the closing ones are added.
        behind: what stands behind the closing tag of a function where that is added.
        alone: how the opener of a function ends that is a whole call; "" where none is.
    """

    function: Tag
    function_close: Tag
    parameter: Tag
    parameter_close: Tag
    value: Callable[[], ValueReader]
    wrapper: Tag
    wrapper_close: Tag
    between: str = ""
    behind: str = ""
    alone: str = ""
