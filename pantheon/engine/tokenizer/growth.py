"""Template operations that can make far more text than they take, refused before they run.

Each check raises TemplateError when the result could be larger than a budget allows.
"""

import re
from typing import Any

from pantheon.engine.tokenizer.budget import MAX_INTEGER_BITS, MAX_LIST_ITEMS, Budget
from pantheon.engine.tokenizer.errors import TemplateError

MAX_WIDTH = 9999
"""Largest width, indentation or precision in formatting: numbers of four digits."""

_WIDE_SPECIFICATION = re.compile(r"%[-+ #0.\d]*\d{5}|:[^{}]*\d{5}")
_COMPUTED_SPECIFICATION = re.compile(r"%[-+ #0.\d]*\*|:[^{}]*\{")


def check_widths(arguments: tuple[Any, ...]) -> None:
    """Padding methods of strings: every integer argument is a width."""
    for value in arguments:
        if isinstance(value, int) and value > MAX_WIDTH:
            raise TemplateError(f"chat template pads to {value} characters, above {MAX_WIDTH}")


def check_join(budget: Budget, values: Any, separators: tuple[Any, ...]) -> None:
    """Joining `values` with the largest of the arguments between them."""
    count = len(values) if isinstance(values, (str, list, tuple, dict)) else MAX_LIST_ITEMS
    budget.check_size(budget.size(values) + count * _largest(budget, separators))


def check_replace(budget: Budget, subject: Any, arguments: tuple[Any, ...]) -> None:
    """Replacing the first argument by the second in `subject`."""
    text = str(subject)
    count = text.count(str(arguments[0])) if arguments else 0
    budget.check_size(len(text) + count * _largest(budget, arguments[1:]))


def check_format(budget: Budget, specification: Any, arguments: tuple[Any, ...]) -> None:
    """Formatting `arguments`, with `%` or with braces."""
    text = str(specification)
    if _WIDE_SPECIFICATION.search(text) or _COMPUTED_SPECIFICATION.search(text):
        raise TemplateError(
            f"chat template formats with a width above {MAX_WIDTH} or one taken from a value"
        )
    fields = text.count("%") + text.count("{")
    budget.check_size(len(text) + fields * max(_largest(budget, arguments), MAX_WIDTH))


def check_indent(budget: Budget, subject: Any, arguments: tuple[Any, ...]) -> None:
    """Indenting the lines of `subject`; the first argument is a width or a text."""
    check_widths(arguments)
    text = str(subject)
    lines = len(text.splitlines()) + 1
    widths = (_largest(budget, arguments), *map(_width, arguments))
    budget.check_size(len(text) + lines * max(widths))


def check_operator(budget: Budget, operator: str, left: Any, right: Any) -> None:
    """Applying `%` to a text, `**`, or `*` to a text or list."""
    budget.spend(0)
    if operator == "%" and isinstance(left, str):
        check_format(budget, left, (right,))
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        if left.bit_length() * right > MAX_INTEGER_BITS:
            raise TemplateError(f"chat template makes an integer above {MAX_INTEGER_BITS} bits")
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if isinstance(value, (str, list, tuple)) and isinstance(times, int):
                budget.check_size(budget.size(value) * max(times, 0))


def _largest(budget: Budget, values: tuple[Any, ...]) -> int:
    return max((budget.size(value) for value in values), default=0)


def _width(value: Any) -> int:
    return value if isinstance(value, int) else 0
