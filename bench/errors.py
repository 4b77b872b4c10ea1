"""The one error of a benchmark that cannot give an honest number."""

from __future__ import annotations


class BenchError(Exception):
    """The run stops. The message is what the person at the terminal reads."""
