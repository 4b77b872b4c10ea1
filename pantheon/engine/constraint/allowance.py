"""How much is made into one grammar, and what of the schemas is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_PARTS: Final = 1 << 12
"""Parts of schemas in one grammar: about 0.2 ms of compiling each."""
MAX_ARGUMENT_PARTS: Final = 1 << 10
"""Parts of the schema of one argument."""
MAX_ARGUMENTS: Final = 1 << 12
"""Arguments of all tools of a grammar."""


class UnusableSchema(ValueError):
    """No grammar is made from the schema: it has too many parts, or no value fits."""


class NoValue(UnusableSchema):
    """No value fits the schema, or none that ends."""


@dataclass(slots=True)
class Allowance:
    """How much may yet be made into one grammar.

    Attributes:
        parts: parts of schemas.
        arguments: arguments of tools.
        lost: keywords that restrict values and are not enforced.
        relaxed: why arguments are held to their types alone, by tool and argument.
    """

    parts: int = MAX_PARTS
    arguments: int = MAX_ARGUMENTS
    lost: set[str] = field(default_factory=set)
    relaxed: dict[tuple[str, str], str] = field(default_factory=dict)

    def spend(self) -> None:
        """Take one part.

        Raises:
            UnusableSchema: none is left.
        """
        self.parts -= 1
        if self.parts < 0:
            raise UnusableSchema("the schemas have more parts than a grammar is made from")
