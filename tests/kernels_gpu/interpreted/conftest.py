"""Kernels are decorated for Triton's interpreter, or for the compiler, when they are imported: this
folder and `compiled` need a process each."""

import os

os.environ["TRITON_INTERPRET"] = "1"
