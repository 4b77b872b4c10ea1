"""Loading a model: every damaged file is one clear refusal (tests/data/README.md, broken)."""

import json
import threading
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import psutil
import pytest

from pantheon.engine import loading
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.dies import Die, DieManager
from pantheon.engine.errors import LoadFailed, LoadFailure, ServerShuttingDown
from pantheon.engine.gguf import GGUFFile, weights_version
from pantheon.engine.loading import load_instance
from pantheon.engine.memory import MemoryLadder, MemoryPressure
from pantheon.engine.model_path import served_name
from pantheon.engine.registry import Registry
from pantheon.engine.shared import Shared
from pantheon.engine.watches import WatchTable
from tests.golden import DATA, golden_file
from tests.log_records import records_of

_CONFIG = EngineConfig(models=(), backend="cpu", build="test")

# What each damaged file must be told about, in the words of its diagnosis.
_DIAGNOSES = {
    "alignment_zero": "alignment",
    "big_endian": "big-endian",
    "duplicate_tensor": "blk.0.attn_q.weight",
    "empty": "empty|magic|header|bytes",
    "head_count_wrong_type": "llama.attention.head_count",
    "huge_array_length": "tokenizer.ggml.tokens",
    "huge_kv_count": "metadata",
    "huge_tensor_count": "tensor",
    "missing_architecture": "general.architecture",
    "missing_key": "llama.block_count",
    "missing_tensor": "blk.0.attn_q.weight",
    "string_length_overflow": "string|key",
    "tensor_offset_beyond_file": "blk.0.attn_q.weight",
    "tensor_offset_misaligned": "blk.0.attn_q.weight",
    "too_many_dims": "blk.0.attn_q.weight",
    "truncated_data": "end|beyond|truncated|inside",
    "truncated_header": "header|bytes|end",
    "truncated_kv": "tokenizer.ggml.tokens|end|truncated",
    "truncated_tensor_info": "tensor|end|truncated",
    "unknown_arch": "zlama",
    "unknown_ggml_type": "250",
    "unknown_kv_type": "99",
    "version_0": "version",
    "version_99": "version",
    "wrong_magic": "magic|GGML",
    "wrong_shape": "blk.0.attn_q.weight",
    "zero_dim": "blk.0.attn_q.weight",
}


def test_every_damaged_file_has_a_diagnosis() -> None:
    files = {path.stem for path in (DATA / "broken").glob("*.gguf*")} - {"ok"}
    assert files == set(_DIAGNOSES)


@pytest.mark.parametrize("name", sorted(_DIAGNOSES))
def test_a_damaged_file_is_refused_quickly_and_cheaply(name: str) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    began = time.process_time()
    with pytest.raises(LoadFailed, match=_DIAGNOSES[name]) as refused:
        load_instance(ModelOptions(path=golden_file(f"broken/{name}.gguf")), _CONFIG)
    assert refused.value.failure is LoadFailure.OTHER
    assert time.process_time() - began < 5
    assert process.memory_info().rss - before < 200 * 2**20
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["/nonexistent/model.gguf", "/", "a\0b", "x" * 10_000])
def test_what_is_no_file_is_not_found(path: str) -> None:
    """Reference, `POST /admin/models/load`: 404 file not found."""
    with pytest.raises(LoadFailed) as refused:
        load_instance(ModelOptions(path=Path(path)), _CONFIG)
    assert refused.value.failure is LoadFailure.FILE_NOT_FOUND


def test_a_file_that_is_no_gguf_does_not_show_its_content(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(json.dumps({"password": "hunter2"}) * 100)
    with pytest.raises(LoadFailed) as refused:
        load_instance(ModelOptions(path=secret), _CONFIG)
    assert "hunter2" not in str(refused.value)


def test_weights_that_are_not_wanted_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Reference, 409: a replica is of the same weights. Their version is that of the instance."""
    versions: list[int] = []

    def refuse(version: int) -> None:
        versions.append(version)
        raise LoadFailed(LoadFailure.CONFLICT, "other weights")

    options = ModelOptions(path=golden_file("models/llama-smollm-f32.gguf"))
    with caplog.at_level("INFO"), pytest.raises(LoadFailed) as refused:
        load_instance(options, _CONFIG, check_weights=refuse)
    assert refused.value.failure is LoadFailure.CONFLICT
    assert not [line for line in caplog.messages if "layers" in line]
    with GGUFFile(options.path) as file:
        assert versions == [weights_version(file)]


def test_dies_on_a_build_without_an_accelerator_are_refused() -> None:
    """Reference, `POST /admin/models/load`: 400 `load_failed`."""
    options = ModelOptions(path=golden_file("broken/ok.gguf"), dies=(0,))
    with pytest.raises(LoadFailed, match="dies") as refused:
        load_instance(options, _CONFIG)
    assert refused.value.failure is LoadFailure.NO_ACCELERATOR


def test_memory_that_does_not_hold_the_cache_is_no_capacity() -> None:
    """Reference, `POST /admin/models/load`: 507 admission refused."""
    config = EngineConfig(models=(), backend="cpu", build="test", kv_memory_share=1e-9)
    with pytest.raises(LoadFailed, match="KV cache needs at least") as refused:
        load_instance(ModelOptions(path=golden_file("broken/ok.gguf")), config)
    assert refused.value.failure is LoadFailure.NO_CAPACITY


def test_no_model_is_loaded_while_memory_is_so_short_that_no_prompt_is_admitted(
    tmp_path: Path,
) -> None:
    """Reference, `POST /admin/models/load`: 507 admission refused (VRAM or host)."""
    pressure = tmp_path / "pressure"
    pressure.write_text("0.99")
    config = EngineConfig(models=(), backend="cpu", build="test", pressure_file=pressure)
    with pytest.raises(LoadFailed, match="short of memory") as refused:
        load_instance(ModelOptions(path=golden_file("broken/ok.gguf")), config)
    assert refused.value.failure is LoadFailure.NO_CAPACITY


def _dies_in_use(*shares: float) -> Shared:
    """Two dies of the host's own device, and what is in use of each."""
    dies = DieManager([Die(at, at, jax.devices()[0], 1 << 30) for at in range(len(shares))])
    ladders = {at: MemoryLadder(partial(float, share)) for at, share in enumerate(shares)}
    pressure = MemoryPressure(MemoryLadder(lambda: 0.1), ladders)
    return Shared(pressure, WatchTable(_CONFIG.max_watches), dies=dies)


def test_a_full_die_refuses_no_load_onto_another() -> None:
    """Reference, `POST /admin/models/load`: 507 admission refused (VRAM)."""
    shared = _dies_in_use(0.99, 0.1)
    cut = ModelOptions(path=golden_file("broken/truncated_data.gguf"))
    with pytest.raises(LoadFailed, match="short of memory") as refused:
        load_instance(replace(cut, dies=(0,)), _CONFIG, shared=shared)
    assert refused.value.failure is LoadFailure.NO_CAPACITY
    for dies in ((1,), None, ()):
        with pytest.raises(LoadFailed) as refused:
            load_instance(replace(cut, dies=dies), _CONFIG, shared=shared)
        assert refused.value.failure is LoadFailure.OTHER, "the file is read"


def test_a_full_die_clamps_no_model_on_another() -> None:
    """Reference, `context_window` and `max_concurrent`: what is honoured right now."""
    shared = _dies_in_use(0.96, 0.1)
    options = ModelOptions(golden_file("models/llama-smollm-f32.gguf"), ctx_cap=256)
    for dies, window in (((0,), 64), ((1,), 256)):
        with closing(load_instance(replace(options, dies=dies), _CONFIG, shared=shared)) as loaded:
            assert loaded.status().context_window == window
    assert [row.vram_used for row in shared.dies.status()] == [0, 0]


def test_an_empty_list_of_dies_names_none(tmp_path: Path) -> None:
    """As over HTTP, where a server without a die loads such a model too."""
    registry = Registry(_CONFIG)
    with pytest.raises(LoadFailed) as refused:
        registry.load(ModelOptions(path=tmp_path / "none.gguf", dies=()))
    assert refused.value.failure is LoadFailure.FILE_NOT_FOUND
    registry.close()


def test_a_load_that_is_stopped_leaves_no_thread() -> None:
    """A shutdown stops a load between its steps, the last of which comes after the engine
    thread has begun."""
    options = ModelOptions(path=golden_file("broken/ok.gguf"), ctx_cap=64, max_sessions=1)
    calls: list[int] = []

    def load(last: int) -> None:
        """Load until the step of that number."""
        calls.clear()

        def check() -> None:
            calls.append(1)
            if len(calls) == last:
                raise ServerShuttingDown("stop")

        load_instance(options, _CONFIG, check).close()

    load(0)
    before, steps = threading.active_count(), len(calls)
    assert steps > 3
    for last in (1, steps):
        with pytest.raises(ServerShuttingDown):
            load(last)
        assert threading.active_count() == before


def test_two_models_of_one_name_are_a_conflict() -> None:
    path = golden_file("broken/ok.gguf")
    options = ModelOptions(path=path, ctx_cap=64, max_sessions=1)
    config = EngineConfig(models=(options, options), backend="cpu", build="test")
    registry = Registry(config)
    try:
        with pytest.raises(LoadFailed, match="already loaded") as refused:
            registry.load_all()
    finally:
        registry.close()
    assert refused.value.failure is LoadFailure.CONFLICT


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("a.b.gguf", None, "a.b"),
        ("big-00001-of-00003.gguf", None, "big"),
        ("a.gguf", "mine", "mine"),
        ("no-ending", None, "no-ending"),
        (".gguf", None, ".gguf"),
        ("a.gguf", "", "a"),
    ],
)
def test_served_name(file: str, name: str | None, expected: str) -> None:
    """A load without `name` is served under the file's name without its endings."""
    assert served_name(ModelOptions(path=Path(file), name=name)) == expected


def test_missing_native_kernels_are_said_loudly(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model answers all the same."""
    monkeypatch.setattr(loading, "native_missing", lambda: "they were not built")
    instance = load_instance(
        ModelOptions(path=golden_file("models/llama-smollm-f32.gguf")), _CONFIG
    )
    instance.close()
    (line,) = (one for one in records_of(caplog, "pantheon") if one.levelname == "WARNING")
    assert "THE NATIVE KERNELS ARE MISSING: they were not built" in line.message


def test_native_kernels_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    """PANTHEON_NATIVE=0."""
    caplog.set_level("INFO")
    config = replace(_CONFIG, native=False)
    load_instance(ModelOptions(path=golden_file("models/llama-smollm-f32.gguf")), config).close()
    assert any("no kernels of ours are used" in record.message for record in caplog.records)
