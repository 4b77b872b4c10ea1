"""What the content of an answer is held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.token_mask import TokenMask


class ContentRule(Protocol):
    """Holds for one answer, whose reasoning is not its concern. Nothing raises."""

    @property
    def mask(self) -> TokenMask | None:
        """Tokens that may come next in the content; None for all. Not to be written to."""
        ...

    @property
    def start_mask(self) -> TokenMask | None:
        """The same where a think block may yet open."""
        ...

    @property
    def reasoning_mask(self) -> TokenMask | None:
        """The same inside a think block."""
        ...

    @property
    def free_ahead(self) -> bool:
        """Whether every token may come after the next, whatever that one is."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the answer ends here, as it should."""
        ...

    @property
    def dead(self) -> bool:
        """Whether the answer ends here, as it can no longer become what it should."""
        ...

    def mask_after_block(self, breaks: int) -> TokenMask | None:
        """The same between a think block and the content, where `breaks` line breaks may come."""
        ...

    def foresee(self, tokens: Sequence[int]) -> list[TokenMask | None]:
        """`mask` as it will likely be after each of the next tokens of the content.

        It ends before a token that is refused. No state changes.
        """
        ...

    def accept(self, token_id: int, text: str) -> None:
        """Take the next token of the content.

        Args:
            token_id: the token.
            text: the content in it, without the beginning of a character at its end.
        """
        ...

    def accept_text(self, text: str) -> None:
        """Take content that is only the end of a token."""
        ...


class WholeObject:
    """The content is one JSON object."""

    def __init__(self, grammar: Grammar) -> None:
        """Hold to a grammar at its beginning."""
        self._grammar = grammar

    @property
    def mask(self) -> TokenMask:
        return self._grammar.mask

    @property
    def start_mask(self) -> TokenMask:
        return self._grammar.mask

    @property
    def reasoning_mask(self) -> None:
        return None

    @property
    def free_ahead(self) -> bool:
        return False

    @property
    def complete(self) -> bool:
        return self._grammar.complete

    @property
    def dead(self) -> bool:
        return self._grammar.dead

    def mask_after_block(self, breaks: int) -> TokenMask:
        return self._grammar.mask | self._grammar.line_breaks(breaks)

    def foresee(self, tokens: Sequence[int]) -> list[TokenMask | None]:
        return list(self._grammar.foresee(tokens))

    def accept(self, token_id: int, text: str) -> None:
        self._grammar.accept(token_id)

    def accept_text(self, text: str) -> None:
        self._grammar.accept_text(text)
