"""The die manager (reference, `GET /admin/dies`, and `dies` of `POST /admin/models/load`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.dies import Binding, DieManager, find_dies
from pantheon.engine.errors import InvalidRequest, LoadFailed, LoadFailure
from pantheon.engine.status import DieStatus
from tests.engine.dies.fake_device import FakeDevice, devices_of


def _manager(*memory: int, reserve: int = 0) -> DieManager:
    return DieManager(find_dies(devices_of(*memory), reserve))


def _refused(manager: DieManager, ordinals: tuple[int, ...] | None, need: int = 0) -> LoadFailure:
    with pytest.raises(LoadFailed) as refused:
        manager.bind("m", ordinals, need)
    return refused.value.failure


def test_the_budget_is_the_memory_less_the_reserve() -> None:
    """Reference, `vram_budget`: total VRAM minus PN_DIE_RESERVE_BYTES."""
    manager = _manager(1000, 50, reserve=100)
    assert [row.vram_budget for row in manager.status()] == [900, 0]
    assert [(row.die, row.model, row.n_models, row.vram_used) for row in manager.status()] == [
        (0, "", 0, 0),
        (1, "", 0, 0),
    ]


def test_a_bound_die_names_its_model_and_what_it_holds() -> None:
    """Reference, the example of `GET /admin/dies`."""
    manager = _manager(12884901888, 12884901888)
    binding = manager.bind("my-model", (0,), 1)
    binding.hold({0: 11674869760})
    assert manager.status() == (
        DieStatus(0, 0, "my-model", 1, 12884901888, 11674869760),
        DieStatus(1, 1, "", 0, 12884901888, 0),
    )
    binding.release()
    binding.release()
    assert manager.status()[0] == DieStatus(0, 0, "", 0, 12884901888, 0)


def test_cards_are_those_that_the_runtime_states() -> None:
    """Reference, `card`: physical card index."""
    stats = {"bytes_limit": 10}
    dies = find_dies([FakeDevice(stats, local_hardware_id=card) for card in (4, 4, 5)], 0)
    assert [(die.ordinal, die.card) for die in dies] == [(0, 4), (1, 4), (2, 5)]


def test_a_device_that_states_no_memory_is_no_die_unless_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    devices = [FakeDevice(None), FakeDevice({"bytes_limit": 7})]
    assert [(die.ordinal, die.budget) for die in find_dies(devices, 1)] == [(1, 6)]
    assert "device 0 (gpu) does not say how much memory it has" in caplog.text
    assert [die.budget for die in find_dies(devices, 1, memory=[100, 7])] == [99, 6]


def test_without_dies_naming_one_is_no_accelerator() -> None:
    """Reference, 400 `load_failed`: with no dies visible."""
    for ordinals in ((), (0,), (0, 1)):
        assert _refused(DieManager(), ordinals) is LoadFailure.NO_ACCELERATOR
    assert (len(DieManager()), DieManager().status()) == (0, ())


def test_ordinals_are_those_of_visible_dies_each_once() -> None:
    """Reference, `dies`: CUDA_VISIBLE_DEVICES-relative ordinals."""
    manager = _manager(10, 10)
    assert _refused(manager, (0, 2)) is LoadFailure.NO_ACCELERATOR
    with pytest.raises(InvalidRequest, match="each die once"):
        manager.bind("m", (1, 1), 0)
    assert [row.n_models for row in manager.status()] == [0, 0]


def test_a_named_die_that_holds_a_model_is_a_conflict() -> None:
    """Reference, 507: die binding conflict."""
    manager = _manager(10, 10, 10)
    manager.bind("a", (1,), 0)
    with pytest.raises(LoadFailed, match=r"die binding conflict: die 1 holds 'a'") as refused:
        manager.bind("b", (0, 1), 0)
    assert refused.value.failure is LoadFailure.NO_CAPACITY
    assert manager.bind("b", (2, 0), 0).ordinals == (2, 0)


def test_unnamed_the_roomiest_free_die_is_taken_and_then_shared() -> None:
    manager = _manager(10, 30, 20)
    first = [manager.bind(name, None, 5).ordinals for name in "abc"]
    assert first == [(1,), (2,), (0,)]
    shared = manager.bind("d", None, 5)
    assert shared.ordinals == (1,), "25 bytes are left there, 15 and 5 on the others"
    row = manager.status()[1]
    assert (row.model, row.n_models) == ("a", 2)
    assert _refused(manager, None, 21) is LoadFailure.NO_CAPACITY


def test_a_free_die_without_room_is_passed_over_for_one_with_room() -> None:
    manager = _manager(10, 100)
    manager.bind("a", (1,), 20)
    assert manager.bind("b", None, 50).ordinals == (1,)


def test_what_is_needed_is_kept_free_until_it_is_held() -> None:
    """Reference, 507: admission refused (VRAM)."""
    manager = _manager(100, 100)
    binding = manager.bind("a", (0, 1), 60)
    assert _refused(manager, None, 41) is LoadFailure.NO_CAPACITY
    assert binding.left_bytes() == 40
    binding.hold({0: 10, 1: 30})
    assert binding.left_bytes() == 70
    assert [row.vram_used for row in manager.status()] == [10, 30]
    other = manager.bind("b", None, 90)
    assert other.ordinals == (0,)
    assert binding.left_bytes() == 0


def test_what_a_load_is_about_to_allocate_is_nobody_elses() -> None:
    """Beside what is held, until it is told anew. It is not used before it is allocated."""
    binding = (manager := _manager(100)).bind("a", (0,), 60)
    binding.hold({0: 40})
    binding.claim(30)
    assert (binding.left_bytes(), manager.status()[0].vram_used) == (30, 40)
    binding.hold({0: 65})
    assert (binding.left_bytes(), manager.status()[0].vram_used) == (35, 65)


def test_an_empty_list_names_no_die() -> None:
    """Reference, `dies` of `POST /admin/models/load`: without ordinals the server chooses."""
    assert _manager(10, 30).bind("m", (), 5).ordinals == (1,)


_MEMORY = st.lists(st.integers(1, 100), min_size=1, max_size=5)
_ORDINALS = st.none() | st.lists(st.integers(0, 5), max_size=4).map(tuple)
_ACTS = st.lists(st.tuples(st.booleans(), _ORDINALS, st.integers(0, 60)), max_size=40)


@given(_MEMORY, _ACTS)
def test_traffic_at_random_never_gives_a_die_away_twice(
    memory: list[int], acts: list[tuple[bool, tuple[int, ...] | None, int]]
) -> None:
    """Named dies are one model's alone, nothing is promised beyond a budget, all comes back."""
    manager = _manager(*memory)
    bindings: list[Binding] = []
    for binds, ordinals, need in acts:
        if binds:
            occupied = {ordinal for one in bindings for ordinal in one.ordinals}
            try:
                bindings.append(manager.bind(f"m{len(bindings)}", ordinals, need))
            except (LoadFailed, InvalidRequest):
                continue
            assert bindings[-1].dies
            assert ordinals is None or not occupied & set(ordinals)
        elif bindings:
            bindings.pop(need % len(bindings)).release()
        for row, size in zip(manager.status(), memory, strict=True):
            on_it = [one for one in bindings if row.die in one.ordinals]
            assert row.n_models == len(on_it)
            assert row.model == (on_it[0].name if on_it else "")
            assert sum(one.claimed(row.die) for one in on_it) <= size
    for binding in bindings:
        binding.release()
    assert all(row.n_models == 0 and row.model == "" for row in manager.status())
