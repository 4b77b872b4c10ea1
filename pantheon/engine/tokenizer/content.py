"""Keeping the text of messages apart from control tokens.

Before a conversation is rendered, every control token's text in it is broken by a character that
occurs nowhere else, so that the scaffolding's control tokens are the only ones in the rendering.
After those are matched, the break characters are taken out again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pantheon.engine.tokenizer.special_tokens import SpecialTexts

_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
"""Code points that Unicode reserves for a program's own use."""
_ANY_NONCHARACTER = re.compile(r"[\ufdd0-\ufdef]|\\ufd[de][0-9a-f]")
"""One of them, or its escape: templates may write a list as Python or JSON writes it."""

_FREE_TEXT = frozenset({"content", "reasoning_content", "text"})
"""Keys of a message under which the whole value is text, next to which scaffolding may stand."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A value whose strings hold no control token's text.

    Attributes:
        value: The value, copied.
        breaks: The break character in it.
        unused: Further characters that occur neither in it nor in the scaffolding.
    """

    value: Any
    breaks: str
    unused: tuple[str, ...]

    def unescape(self, rendered: str) -> str:
        """A rendering of the value with its escaped break characters as themselves."""
        return rendered.replace(_escape(self.breaks), self.breaks)


class ContentGuard:
    """Breaks the texts of a vocabulary's control tokens.

    In the free text of messages, a part that scaffolding around it could complete to a control
    token is broken as well: `<` at the end, `|>` at the start, or `end` as the whole text. Other
    strings (names, tool schemas) are broken only where they hold a whole control token's text,
    since templates compare them.
    """

    def __init__(self, control_texts: Iterable[str]) -> None:
        """Prepare for control tokens of two characters or more."""
        texts = tuple(control_texts)
        self._texts = SpecialTexts(texts)
        self._insides = tuple(text[1:-1] for text in texts)
        self._beginnings = frozenset(text[:end] for text in texts for end in range(1, len(text)))
        self._ends = frozenset(text[start:] for text in texts for start in range(1, len(text)))
        self._longest = max(map(len, texts), default=1)

    def guard(self, value: Any, scaffolding: str) -> Guarded:
        """Break control tokens' texts in every string of a JSON-like value, keys included.

        Args:
            value: Strings, numbers, lists and mappings, nested.
            scaffolding: Text that the break character must not occur in: the template's source.

        Raises:
            RecursionError: the value nests too deeply.
        """
        used = set(_ANY_NONCHARACTER.findall(scaffolding))
        for text in _strings(value):
            used.update(_ANY_NONCHARACTER.findall(text))
        free = [mark for mark in _NONCHARACTERS if used.isdisjoint((mark, _escape(mark)))]
        replaced = None if free else _NONCHARACTERS[0]
        mark = free[0] if free else _NONCHARACTERS[0]
        walked = self._walk(value, _Marks(mark, replaced), edges=False, inherit=False)
        return Guarded(walked, mark, tuple(free[1:]))

    def _walk(self, value: Any, marks: "_Marks", *, edges: bool, inherit: bool) -> Any:
        """Copy of a value with its strings broken.

        Args:
            value: The value.
            marks: The break character.
            edges: Break the ends of strings too.
            inherit: Whether that holds for everything below as well.
        """
        if isinstance(value, str):
            return self._broken(value, marks, edges=edges)
        if isinstance(value, Mapping):
            copy = {}
            for key, item in value.items():
                if key == "arguments":
                    walked = self._walk(item, marks, edges=True, inherit=True)
                else:
                    free_text = key in _FREE_TEXT or (inherit and edges)
                    walked = self._walk(item, marks, edges=free_text, inherit=inherit)
                copy[self._walk(key, marks, edges=False, inherit=False)] = walked
            return copy
        if isinstance(value, Sequence):
            return [self._walk(item, marks, edges=edges, inherit=inherit) for item in value]
        return value

    def _broken(self, text: str, marks: "_Marks", *, edges: bool) -> str:
        if marks.replaced is not None:
            text = text.replace(marks.replaced, "\ufffd")
        places = {start + 1 for start in self._texts.starts(text)}
        if edges:
            places |= self._edges(text)
        if not places:
            return text
        cuts = [0, *sorted(places), len(text)]
        return marks.mark.join(text[a:b] for a, b in pairwise(cuts))

    def _edges(self, text: str) -> set[int]:
        """Where to break what a text's surroundings could complete, as it is and trimmed."""
        places = set()
        first = len(text) - len(text.lstrip())
        last = len(text.rstrip())
        for start, end in {(0, len(text)), (min(first, last), last)}:
            reach = min(self._longest, end - start)
            whole = text[start:end]
            if any(whole[:size] in self._ends for size in range(1, reach + 1)) or (
                0 < len(whole) < self._longest and any(whole in inside for inside in self._insides)
            ):
                places.add(start)
            places |= {
                end - size + 1
                for size in range(1, reach + 1)
                if text[end - size : end] in self._beginnings
            }
        return places


@dataclass(frozen=True, slots=True)
class _Marks:
    """The break character, and the character that gives way to it where none was free."""

    mark: str
    replaced: str | None


def _escape(mark: str) -> str:
    """A break character in a string literal of Python or JSON."""
    return f"\\u{ord(mark):04x}"


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)
