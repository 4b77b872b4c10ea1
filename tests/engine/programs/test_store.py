"""Programs of an earlier start are run, and nothing else is."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from pantheon.engine.programs import (
    PrivateFolder,
    ProgramStore,
    environment_digest,
    without_cache_of_jax,
)

HERE = environment_digest("")


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    return PrivateFolder.open(tmp_path / "programs")


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "pantheon.engine.programs")
    return caplog


def doubled() -> jax.stages.Compiled:
    """Adds a doubled array to a donated one."""
    array = jax.ShapeDtypeStruct((1000,), jnp.float32)
    jitted = jax.jit(lambda state, x: (state + 2 * x, x[0]), donate_argnums=0)
    with without_cache_of_jax():
        return jitted.lower(array, array).compile()


def result_of(program: jax.stages.Compiled) -> list[float]:
    state, x = jnp.ones(1000, jnp.float32), jnp.arange(1000, dtype=jnp.float32)
    total, first = program(state, x)
    assert state.is_deleted(), "the state is donated"
    return [float(total[0]), float(total[999]), float(first)]


def found(store: ProgramStore, key: str) -> jax.stages.Compiled | None:
    coming = store.find(key)
    return None if coming is None else coming.result(30)


def test_a_kept_program_is_that_program(folder: PrivateFolder) -> None:
    store = ProgramStore(folder, HERE)
    key = store.key("a", "b")
    assert store.find(key) is None
    store.keep(key, doubled())
    program = found(ProgramStore(folder, HERE), key)
    assert program is not None
    assert result_of(program) == [1, 1999, 0]
    with pytest.raises(TypeError):
        program(jnp.ones(1000, jnp.int32), jnp.ones(1000, jnp.float32))


def test_keys_tell_parts_and_environments_apart(folder: PrivateFolder) -> None:
    stores = [ProgramStore(folder, HERE), ProgramStore(folder, environment_digest("--xla_x"))]
    keys = [store.key(*parts) for store in stores for parts in (("ab", "c"), ("a", "bc"), ("abc",))]
    assert len(set(keys)) == len(keys)
    stores[0].keep(keys[0], doubled())
    assert stores[1].find(stores[1].key("ab", "c")) is None


def test_the_environment_follows_the_configuration_of_jax() -> None:
    before = jax.config.values["jax_default_matmul_precision"]
    jax.config.update("jax_default_matmul_precision", "highest")
    try:
        assert environment_digest("") != HERE
    finally:
        jax.config.update("jax_default_matmul_precision", before)
    assert environment_digest("") == HERE


def test_no_program_is_taken_out_of_the_cache_of_jax_meanwhile() -> None:
    """XLA's CPU client would lose functions of one: "Function ... not found" when it is run."""
    events: list[str] = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    try:
        array = jax.ShapeDtypeStruct((1000,), jnp.float32)
        for _ in range(2):
            jax.jit(lambda x: x - 1).lower(array).compile()
        assert "/jax/compilation_cache/compile_requests_use_cache" in events
        events.clear()
        doubled()
        assert "/jax/compilation_cache/compile_requests_use_cache" not in events
        jax.jit(lambda x: x - 1).lower(array).compile()
        assert "/jax/compilation_cache/compile_requests_use_cache" in events
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("content", [b"", b"not a program", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_a_file_that_is_no_program_is_a_line_and_none(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture, content: bytes
) -> None:
    """As a JAX of another version would leave one: whole, and of no use."""
    store = ProgramStore(folder, HERE)
    key = store.key("a")
    folder.write(key, content)
    assert found(store, key) is None
    assert ["cannot be loaded" in record.getMessage() for record in warnings.records] == [True]


def test_a_damaged_program_is_never_unpickled(
    folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ProgramStore(folder, HERE)
    key = store.key("a")
    store.keep(key, doubled())
    path = folder.path / key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    unpickled: list[bytes] = []
    monkeypatch.setattr("pickle.loads", unpickled.append)
    assert found(store, key) is None
    assert not unpickled


def test_a_program_that_cannot_be_kept_is_a_line(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture
) -> None:
    folder.path.rmdir()
    store = ProgramStore(folder, HERE)
    store.keep(store.key("a"), doubled())
    assert ["is not kept" in record.getMessage() for record in warnings.records] == [True]


def test_what_an_occasion_used_is_foreseen_the_next_time(folder: PrivateFolder) -> None:
    store = ProgramStore(folder, HERE)
    store.foresee("model")
    keys = [store.key("a"), store.key("gone")]
    store.keep(keys[0], doubled())
    store.remember("model", keys)
    following = ProgramStore(folder, HERE)
    following.foresee("model")
    following.foresee("model")
    program = found(following, keys[0])
    assert program is not None
    assert result_of(program) == [1, 1999, 0]
    coming = following.find(keys[1])
    assert coming is not None
    assert coming.result(30) is None
    following.foresee("model")
    following.forget()
    assert following.find(keys[1]) is None


def test_a_closed_store_holds_up_no_end(folder: PrivateFolder) -> None:
    """The interpreter waits at its end for what its pools have not done."""
    store = ProgramStore(folder, HERE)
    keys = [store.key(str(number)) for number in range(8)]
    for key in keys:
        store.keep(key, doubled())
    coming = [store.find(key) for key in keys]
    store.close()
    assert coming[-1] is not None
    assert coming[-1].cancelled()


@pytest.mark.parametrize("data", [b"{", b"5", b'{"a": 1}', b'["../x"]', b"[5]", b"\xff"])
def test_an_occasion_that_makes_no_sense_foresees_nothing(
    folder: PrivateFolder, warnings: pytest.LogCaptureFixture, data: bytes
) -> None:
    store = ProgramStore(folder, HERE)
    store.remember("model", [store.key("a")])
    (path,) = folder.path.iterdir()
    folder.write(path.name, data)
    store.foresee("model")
    assert len(warnings.records) == 1


def test_starts_at_once_find_whole_programs(tmp_path: Path) -> None:
    """Processes that compile and keep the same program at the same time."""
    program = (
        "import sys, jax, jax.numpy as jnp\n"
        "from pathlib import Path\n"
        "from pantheon.engine.programs import PrivateFolder, ProgramStore, environment_digest\n"
        "store = ProgramStore(PrivateFolder.open(Path(sys.argv[1])), environment_digest(''))\n"
        "key = store.key('f')\n"
        "for _ in range(5):\n"
        "    store.keep(key, jax.jit(lambda x: x * 3).lower(jnp.float32(2)).compile())\n"
        "    assert store.find(key).result()(jnp.float32(2)) == 6\n"
    )
    command = (sys.executable, "-W", "error", "-c", program, str(tmp_path / "programs"))
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(100) for process in processes] == [0, 0]
