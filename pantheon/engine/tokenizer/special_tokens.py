"""Finding whole special tokens in text: the longest match at each position, left to right."""

import re
from collections.abc import Iterable, Iterator

from pantheon.engine.tokenizer.errors import TokenizerError

MAX_SPECIAL_CHARS = 256

_END = ""
"""Key of a trie node at which a text ends; no character is empty."""

_Node = dict[str, "_Node"]


class SpecialTexts:
    """A set of texts to be found whole.

    Matching takes time linear in the text, whatever the text is: the set is a trie, compiled to a
    regular expression whose alternatives start with different characters at every node.
    """

    __slots__ = ("_every_start", "_pattern")

    def __init__(self, texts: Iterable[str]) -> None:
        """Compile the set.

        Args:
            texts: Non-empty texts of at most 256 characters.

        Raises:
            TokenizerError: a text is longer, or the set nests too deeply to be compiled.
        """
        trie: _Node = {}
        for text in texts:
            if len(text) > MAX_SPECIAL_CHARS:
                raise TokenizerError(
                    f"special tokens may have at most {MAX_SPECIAL_CHARS} characters; "
                    f"{text[:40]!r}... has {len(text)}"
                )
            node = trie
            for character in text:
                node = node.setdefault(character, {})
            node[_END] = {}
        try:
            expression = _expression(trie) if trie else r"(?!)"
            self._pattern = re.compile(expression)
            self._every_start = re.compile(f"(?={expression})")
        except RecursionError as error:
            raise TokenizerError("special tokens nest too deeply in each other") from error

    def split(self, text: str) -> Iterator[tuple[str, bool]]:
        """Cut text at the matches.

        Yields:
            (piece, whether it is a match) in order; no piece is empty and they join to `text`.
        """
        position = 0
        for match in self._pattern.finditer(text):
            if match.start() > position:
                yield text[position : match.start()], False
            yield match.group(), True
            position = match.end()
        if position < len(text):
            yield text[position:], False

    def starts(self, text: str) -> list[int]:
        """Every position at which one of the texts begins, overlapping ones included."""
        return [match.start() for match in self._every_start.finditer(text)]


def _expression(node: _Node) -> str:
    """A regular expression that matches the longest path of the trie."""
    branches = [
        re.escape(character) + _expression(child)
        for character, child in node.items()
        if character != _END
    ]
    if not branches:
        return ""
    if _END in node:
        return f"(?:{'|'.join(branches)})?"
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
