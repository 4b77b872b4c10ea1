"""States of attention layers (reference, `attention`: `ondie`, `host`, `gave_up`, `impossible`)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.residency import AttentionLayers, AttentionStatus, PagesNotAllocated

_FULL = PagesNotAllocated("no room")
_TOO_SMALL = PagesNotAllocated("the die is too small", impossible=True)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _layers(count: int, attempts: int = 5) -> tuple[AttentionLayers, _Clock]:
    clock = _Clock()
    return AttentionLayers(count, flash=True, clock=clock, attempts=attempts), clock


def test_without_flash_kernels_every_layer_is_on_the_host_for_good() -> None:
    """Design: a CPU build counts its layers as `host` with reason `no_flash_kernels`."""
    layers = AttentionLayers(3, flash=False, clock=_Clock())
    assert layers.status() == AttentionStatus(
        ondie=0, host=3, total=3, host_engagements=3, reasons={"no_flash_kernels": 3}
    )
    assert not layers.may_try(0)
    assert layers.due_in_s is None


def test_layers_with_their_pages_are_on_the_die() -> None:
    layers, _ = _layers(2)
    for layer in range(2):
        assert layers.may_try(layer)
        layers.allocated(layer)
    assert layers.status() == AttentionStatus(ondie=2, host=0, total=2)
    assert layers.due_in_s is None


def test_the_operators_example() -> None:
    """Reference, `GET /admin/models`: two of ten layers spent their budget of five attempts."""
    layers, clock = _layers(10)
    for layer in range(8):
        layers.allocated(layer)
    while layers.may_try(8):
        layers.refused(8, _FULL)
        layers.refused(9, _FULL)
        clock.now += layers.due_in_s or 0
    assert layers.status() == AttentionStatus(
        ondie=8,
        host=2,
        total=10,
        gave_up=2,
        impossible=0,
        host_engagements=2,
        ring_alloc_failures=10,
        reasons={"ring_alloc_failed": 2},
    )
    assert layers.due_in_s is None


def test_a_failed_allocation_is_retried_later_and_clears() -> None:
    """Reference: "a `host` reading that clears on the next poll is the system self-healing"."""
    layers, clock = _layers(1)
    layers.refused(0, _FULL)
    assert layers.status().gave_up == 0
    assert not layers.may_try(0)
    assert layers.due_in_s == 1.0
    clock.now += 1
    assert layers.may_try(0)
    layers.allocated(0)
    assert layers.status() == AttentionStatus(
        ondie=1, host=0, total=1, host_engagements=1, ring_alloc_failures=1
    )


def test_what_cannot_fit_at_all_is_told_apart_and_not_tried_again() -> None:
    """Reference: `impossible` is a subset of `gave_up`."""
    layers, clock = _layers(2, attempts=1)
    layers.refused(0, _FULL)
    layers.refused(1, _TOO_SMALL)
    clock.now += 1e9
    assert not layers.may_try(1)
    status = layers.status()
    assert (status.host, status.gave_up, status.impossible) == (2, 2, 1)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("arig"), st.floats(0, 100)), max_size=60),
)
def test_the_numbers_always_add_up(count: int, events: list[tuple[int, str, float]]) -> None:
    """Reference: `ondie + host == total`; `impossible` <= `gave_up` <= `host`; reasons add up."""
    layers, clock = _layers(count)
    failures, attempts_in_a_row = 0, Counter[int]()
    for layer, event, passes in events:
        clock.now += passes
        if layer >= count or not layers.may_try(layer):
            continue
        if event == "a":
            layers.allocated(layer)
            attempts_in_a_row[layer] = 0
        else:
            layers.refused(layer, _TOO_SMALL if event == "i" else _FULL)
            failures += 1
            attempts_in_a_row[layer] += 1
        status = layers.status()
        assert status.ondie + status.host == status.total == count
        assert status.impossible <= status.gave_up <= status.host
        assert sum(status.reasons.values()) == status.host
        assert status.ring_alloc_failures == failures >= status.host_engagements >= status.host
        assert max(attempts_in_a_row.values(), default=0) <= 5
