"""Giving memory back to the operating system after a model is gone."""

from __future__ import annotations

import ctypes
import gc
import traceback

import jax


def reclaim_memory(*, programs: bool) -> None:
    """Free what nobody refers to any more, and return free memory to the operating system.

    Args:
        programs: also forget what JAX remembers of traced functions. Its caches are keyed by
            functions, shapes and closures of models that will never be seen again, and are
            bounded by counts so large that they grow for hundreds of loads. Steps that are
            compiled stay with the runners that hold them; a function that is called again is
            traced again. Not while another thread traces.
    """
    if programs:
        jax.clear_caches()  # type: ignore[no-untyped-call]
    # Exceptions, generators and JAX's own objects refer to each other in circles.
    gc.collect()
    _trim()


def forget_frames(error: BaseException) -> None:
    """Take off an error everything that refers to the frames it came through."""
    chain: BaseException | None = error
    while chain is not None:
        traceback.clear_frames(chain.__traceback__)
        following = chain.__cause__ or chain.__context__
        chain.__traceback__ = chain.__cause__ = chain.__context__ = None
        chain = following


def _trim() -> None:
    """Let the C library return the free pages inside its heaps.

    glibc keeps what was freed in arenas that only shrink from their ends: one small block that
    lives on behind a gigabyte of freed ones pins all of it, so a server that loads and unloads
    would look, and to a cgroup's limit be, as large as the sum of its models. Other C libraries
    have no such function and no such need.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
