"""What rows of the table are made by."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from bench.ahead_of_time.compiled import CompiledKernel

Job: TypeAlias = Callable[[int], Sequence[CompiledKernel]]
"""Compiles the kernels of one case for a GPU of a given capability. It goes to another process, so
that it is a function of a module or a `partial` of one."""
