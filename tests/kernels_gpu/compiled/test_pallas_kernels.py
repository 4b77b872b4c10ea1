"""What is taken from a lowered program for Triton's compiler, on a kernel of known needs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from bench.ahead_of_time.pallas import Cost, compiled_kernels, lowered_kernels
from pantheon.engine.kernels.pallas import (
    Ref,
    barrier,
    launch,
    masked_load,
    masked_store,
    span,
)


def _scaled(x: jax.Array) -> jax.Array:
    def doubled(source: Ref, counts: Ref, target: Ref) -> None:
        def add(_: jax.Array, total: jax.Array) -> jax.Array:
            return total + source[...]

        target[...] = jax.lax.fori_loop(0, counts[0], add, jnp.zeros((128,), jnp.float32))

    (found,) = launch(
        doubled,
        (x, jnp.full((1,), 2, jnp.int32)),
        [jax.ShapeDtypeStruct((128,), jnp.float32)],
        grid=(3, 2),
        warps=2,
        stages=1,
        interpret=False,
    )
    return found


_ARGUMENTS = (jax.ShapeDtypeStruct((128,), jnp.float32),)


def test_a_kernel_is_lowered_as_it_asks_for() -> None:
    (kernel,) = lowered_kernels(_scaled, _ARGUMENTS, 90)
    assert kernel.name == "doubled"
    assert (kernel.grid, kernel.warps, kernel.stages) == ((3, 2, 1), 2, 1)


@pytest.mark.parametrize("capability", [80, 90])
def test_bytes_are_those_of_loads_and_stores_in_all_programs(capability: int) -> None:
    """A count, twice 128 values and as many sums; the loop's bound is known on the device alone."""
    costs = {"doubled": Cost(least_bytes=7, trips=(2,))}
    (found,) = compiled_kernels(_scaled, _ARGUMENTS, capability, case="c", costs=costs)
    assert found.moved_bytes == 6 * (4 + 2 * 512 + 512)
    assert (found.kernel, found.case, found.capability) == ("doubled", "c", capability)
    assert (found.least_bytes, found.spilled_bytes) == (7, 0)


def test_loops_of_constant_bounds_are_counted_as_they_are() -> None:
    """Their bounds are sums in what Pallas lowers. Barriers are of a dialect of their own."""

    def copied(source: Ref, target: Ref) -> None:
        def copy(index: jax.Array, _: None) -> None:
            place = span(index * 32, 32)
            masked_store(target.at[place], masked_load(source.at[place], place < 128), place < 128)
            barrier(interpret=False)

        jax.lax.fori_loop(0, 4, copy, None)

    def called(x: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct((128,), jnp.float32)
        return launch(copied, (x,), [shape], grid=(3,), warps=1, stages=1, interpret=False)[0]

    costs = {"copied": Cost(least_bytes=7)}
    (found,) = compiled_kernels(called, _ARGUMENTS, 90, case="c", costs=costs)
    assert found.moved_bytes == 3 * (512 + 512)


def test_costs_of_all_kernels_are_told() -> None:
    with pytest.raises(ValueError, match=r"c: expected costs of \['doubled'\], got \[\]"):
        compiled_kernels(_scaled, _ARGUMENTS, 90, case="c", costs={})
