"""What one rendering of a chat template may use: processor time, text made, sizes of values.

A template comes with a model file and is not trusted. Python code cannot be interrupted from
outside, so the sandbox asks the budget at every loop turn, call, filter, output and operator that
makes something larger; a single operation between two such points works on values whose size is
bounded here.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pantheon.engine.tokenizer.errors import TemplateError

MAX_SECONDS = 1.0
"""Processor time of the rendering thread; waiting for other threads is not counted."""
MAX_VALUE_CHARS = 1 << 25
"""Characters of one string, or of one list or mapping written out in full."""
MAX_LIST_ITEMS = 1 << 20
MAX_MADE_CHARS = 1 << 28
"""Characters of all strings and output pieces made during a rendering."""
MAX_INTEGER_BITS = 4096


class Budget:
    """The remaining allowance of one rendering. Every method raises TemplateError beyond it."""

    __slots__ = ("_deadline", "_made", "_sizes")

    def __init__(self) -> None:
        self._deadline = time.thread_time() + MAX_SECONDS
        self._made = 0
        # Sizes of lists and mappings by identity; the value is kept so that its id stays taken.
        self._sizes: dict[int, tuple[object, int]] = {}

    def spend(self, chars: int) -> None:
        """Take `chars` made characters, and check the time."""
        self._made += chars
        if self._made > MAX_MADE_CHARS:
            raise TemplateError(f"chat template made more than {MAX_MADE_CHARS} characters")
        if time.thread_time() > self._deadline:
            raise TemplateError(f"chat template ran for more than {MAX_SECONDS} s")

    def check_size(self, chars: int) -> None:
        """Refuse a value that would have more than the allowed characters."""
        if chars > MAX_VALUE_CHARS:
            raise TemplateError(f"chat template made a value of more than {MAX_VALUE_CHARS} chars")

    def account(self, value: object) -> None:
        """Account for a value that was just made."""
        if isinstance(value, str):
            self.check_size(len(value))
            self.spend(len(value))
        elif isinstance(value, (list, tuple, dict)):
            if len(value) > MAX_LIST_ITEMS:
                raise TemplateError(f"chat template made more than {MAX_LIST_ITEMS} items")
            self.size(value)
            self.spend(0)
        elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            raise TemplateError(f"chat template made an integer above {MAX_INTEGER_BITS} bits")

    def size(self, value: object) -> int:
        """Characters of a value written out, roughly; shared parts count each time they occur."""
        if isinstance(value, str):
            return len(value)
        if not isinstance(value, (list, tuple, dict)):
            return 8
        known = self._sizes.get(id(value))
        if known is not None:
            return known[1]
        total = 2
        for item in value.items() if isinstance(value, dict) else value:
            if isinstance(value, dict):
                total += self.size(item[0]) + self.size(item[1]) + 2
            else:
                total += self.size(item) + 2
            self.check_size(total)
        self._sizes[id(value)] = (value, total)
        return total


_current: ContextVar[Budget] = ContextVar("chat_template_budget")


def current_budget() -> Budget:
    """The budget of the rendering that runs in this thread."""
    return _current.get()


@contextmanager
def fresh_budget() -> Iterator[None]:
    """A full budget for the block."""
    token = _current.set(Budget())
    try:
        yield
    finally:
        _current.reset(token)
