"""Regular expressions for the pieces of JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pantheon.engine.constraint.lark import escaped

GAP: Final = r"(?:\x20|\x0A(?:\x20{0,16}|\x09{1,8}))?"
"""Between two tokens a space, or a line break and its indentation: a model cannot fill its limit
with whitespace."""

_UNIT: Final = r"[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}"
_PAIR: Final = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE: Final = rf'\\(?:["\\bfnrt\x2F]|u(?:{_UNIT}|{_PAIR}))'
"""Without halves of surrogate pairs."""
_PLAIN_ESCAPE: Final = r'\\["\\bfnrt]'
"""Of what has no other spelling. Control characters without such an escape do not come then."""
_NOT_PLAIN: Final = r'"\\\x00-\x1F\x7F'


class JsonText:
    """Writes expressions for JSON text, in which some other text may be forbidden."""

    def __init__(self, forbidden: str | None = None) -> None:
        """Allow any text.

        Args:
            forbidden: begins with `</`, of which neither character is in the rest of it.
        """
        self._forbidden = forbidden
        self.string: Final = _string(_ESCAPE, forbidden)
        """Any string."""
        self.plain_string: Final = _string(_PLAIN_ESCAPE, forbidden)
        """A string in the one spelling that `value` gives it."""

    def value(self, value: Any) -> str:
        """The text of one value, whatever whitespace stands in it."""
        if isinstance(value, Mapping):
            members = [
                f"{self.value(key)}{GAP}:{GAP}{self.value(item)}" for key, item in value.items()
            ]
            return _enclosed("{", members, "}")
        if isinstance(value, Sequence) and not isinstance(value, str):
            return _enclosed("[", [self.value(item) for item in value], "]")
        text = json.dumps(value, ensure_ascii=False)
        if self._forbidden is not None:
            text = text.replace(self._forbidden, self._forbidden.replace("/", r"\/"))
        return escaped(text)


def _enclosed(opener: str, parts: list[str], closer: str) -> str:
    inside = f"{GAP},{GAP}".join(parts)
    return f"{escaped(opener)}{GAP}{inside}{GAP if parts else ''}{escaped(closer)}"


def _string(escape: str, forbidden: str | None) -> str:
    if forbidden is None:
        return f'"(?:[^{_NOT_PLAIN}]|{escape})*"'
    first, between, last = forbidden[0], forbidden[1:-1], forbidden[-1]
    begun, other = "", rf"(?:[^{first}{escaped(last)}{_NOT_PLAIN}]|{escape})"
    for character in reversed(between):
        mark = escaped(character)
        begun = f"(?:{mark}{begun})?"
        other = rf"(?:[^{first}{mark}{_NOT_PLAIN}]|{escape}|{mark}{other})"
    opened = f"{first}(?:{begun}{first})*"
    return f'"(?:[^{first}{_NOT_PLAIN}]|{escape}|{opened}{other})*(?:{opened}{begun})?"'
