"""Finding where a call begins, in content that comes in any pieces."""

from __future__ import annotations

import json
import re
from typing import Final, Protocol

from pantheon.engine.constraint.json_call_grammar import json_opener
from pantheon.engine.constraint.qwen_grammar import qwen_opener
from pantheon.engine.tools.tags import GAP

_KEPT: Final = 1024
"""Characters at the content's end in which an opener may have begun."""


class Openings(Protocol):
    """Watches the content of one answer."""

    @property
    def begun(self) -> bool:
        """Whether the content ends in what may become an opener."""
        ...

    def push(self, text: str) -> str | None:
        """Take more content.

        Returns:
            Where the opener of a call is complete in it, the call so far as the grammar spells
            it: the opener and what follows.
        """
        ...

    def restart(self) -> None:
        """A call ended here, or what looked like one: only openers behind it count."""
        ...


class _Tail:
    """The end of a text."""

    def __init__(self) -> None:
        self.text = ""
        self.is_cut = False
        """Whether something stood before it."""

    def add(self, text: str) -> None:
        self.text += text
        if len(self.text) > 2 * _KEPT:
            self.text = self.text[-_KEPT:]
            self.is_cut = True

    def drop(self, count: int) -> None:
        """Forget the first characters."""
        self.is_cut = self.is_cut or count > 0
        self.text = self.text[count:]


class QwenOpenings:
    """A function's opener behind `<tool_call>`, or at the beginning of a line.

    Elsewhere the text is about calls.
    """

    _OPENER: Final = re.compile(
        rf"(?:(?P<wrapper><tool_call>){GAP}|^[ \t]*)<function=(?P<name>[^<>\n]{{1,256}})>",
        re.MULTILINE,
    )
    _BEGUN: Final = re.compile(r"<(?:f(?:u(?:n(?:c(?:t(?:i(?:o(?:n(?:=[^<>\n]*)?)?)?)?)?)?)?)?)?")

    def __init__(self, tools: frozenset[str]) -> None:
        """Find calls of the named tools."""
        self._tools = tools
        self._tail = _Tail()

    @property
    def begun(self) -> bool:
        text = self._tail.text
        return self._BEGUN.fullmatch(text, max(text.rfind("<"), 0)) is not None

    def push(self, text: str) -> str | None:
        tail = self._tail
        tail.add(text)
        if ">" not in text:
            return None
        # At a later place than 0 a beginning of a line needs a line break before it.
        while found := self._OPENER.search(tail.text, int(tail.is_cut)):
            tail.drop(found.end())
            if found["name"] in self._tools:
                opener = qwen_opener(found["name"], wrapped=found["wrapper"] is not None)
                return opener + tail.text
        return None

    def restart(self) -> None:
        self._tail = _Tail()


class JsonOpenings:
    """An object that begins with the name of a tool, and then its arguments."""

    _BLANK: Final = r"[ \t\r\n]{0,64}"
    _OPENER: Final = re.compile(
        rf'\{{{_BLANK}"(?:name|function)"{_BLANK}:{_BLANK}(?P<name>"(?:[^"\\\x00-\x1f]|\\.){{1,512}}")'
        rf'{_BLANK},{_BLANK}"(?:arguments|parameters)"{_BLANK}:{_BLANK}(?=\{{)'
    )
    _BEGUN: Final = re.compile(r"\{[^{}]*")

    def __init__(self, tools: frozenset[str]) -> None:
        """Find calls of the named tools."""
        self._tools = tools
        self._tail = _Tail()

    @property
    def begun(self) -> bool:
        text = self._tail.text
        return self._BEGUN.fullmatch(text, max(text.rfind("{"), 0)) is not None

    def push(self, text: str) -> str | None:
        tail = self._tail
        tail.add(text)
        if "{" not in text:
            return None
        while found := self._OPENER.search(tail.text):
            tail.drop(found.end())
            name = _string(found["name"])
            if name is not None and name in self._tools:
                return json_opener(name) + tail.text
        return None

    def restart(self) -> None:
        self._tail = _Tail()


def _string(text: str) -> str | None:
    """What a JSON string is, or None for what is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
