"""From the names of a document to names of Python."""

from __future__ import annotations

import re


def class_name(text: str) -> str:
    """`text` in upper camel case, letters and digits only."""
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", text))


def python_name(text: str) -> str:
    """`text` in snake case, for a variable or field."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower())
