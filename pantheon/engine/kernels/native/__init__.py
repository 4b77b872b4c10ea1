"""The library of native kernels: C++ behind JAX's typed FFI, from the sources in `native/`."""

from pantheon.engine.kernels.native.library import InstructionSet, NativeLibrary, native_library

__all__ = ["InstructionSet", "NativeLibrary", "native_library"]
