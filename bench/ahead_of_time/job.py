"""What one row of the table is made by."""

from collections.abc import Callable
from typing import TypeAlias

from bench.ahead_of_time.compiled import CompiledKernel

Job: TypeAlias = Callable[[int], CompiledKernel]
"""Compiles one kernel for one case, for a GPU of a given capability. It goes to another process, so
that it is a function of a module or a `partial` of one."""
