"""By the native kernels: pages are read and written where they lie."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.native import InstructionSet


def native_attention(
    query: Float[Array, "batch time heads head_dim"],
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    block_tables: Int[Array, "batch blocks"],
    positions: Int[Array, "batch time"],
    lengths: Int[Array, " batch"],
    live: Int[Array, " bounds"] | None = None,
    *,
    scale: float,
    window: int = 0,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "batch time heads head_dim"]:
    """See `paged_attention`. Pages are float32 or float16, everything else float32.

    A row's result does not depend on the other rows or on the number of threads, bit for bit.
    Tokens outside of `live` come out as zeros. A length beyond the table and a page that does not
    exist fail the step.
    """
    call = jax.ffi.ffi_call("pantheon_attend", jax.ShapeDtypeStruct(query.shape, query.dtype))  # type: ignore[no-untyped-call]
    mixed: jax.Array = call(
        query,
        key_pages,
        value_pages,
        block_tables.astype(jnp.int32),
        positions.astype(jnp.int32),
        lengths.astype(jnp.int32),
        jnp.array([0, query.shape[0] * query.shape[1]], jnp.int32) if live is None else live,
        scale=np.float32(scale),
        window=np.int64(window),
        instruction_set=np.int64(instruction_set),
    )
    return mixed


def native_write(
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    keys: Float[Array, "batch time kv_heads head_dim"],
    values: Float[Array, "batch time kv_heads head_dim"],
    pages: Int[Array, "batch time"],
    offsets: Int[Array, "batch time"],
    *,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> tuple[
    Float[Array, "pages kv_heads page_size head_dim"],
    Float[Array, "pages kv_heads page_size head_dim"],
]:
    """See `write_pages`. XLA copies nothing where the pages are not used afterwards."""
    shapes = [jax.ShapeDtypeStruct(held.shape, held.dtype) for held in (key_pages, value_pages)]  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call("pantheon_write_pages", shapes, input_output_aliases={4: 0, 5: 1})
    new_keys, new_values = call(
        keys,
        values,
        pages.astype(jnp.int32),
        offsets.astype(jnp.int32),
        key_pages,
        value_pages,
        instruction_set=np.int64(instruction_set),
    )
    return new_keys, new_values
