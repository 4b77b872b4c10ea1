"""Settings: declared once, parsed and bounded, one clear line on a bad value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pantheon import build_info
from pantheon.engine.config import EngineConfig, HostOptions, ModelOptions
from pantheon.engine.precision import Precision
from pantheon.settings import Settings, SettingsError


def test_defaults() -> None:
    settings = Settings.from_environment({"HOME": "/home/x"})
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.models is None
    assert settings.max_body_bytes == 16 * 2**20
    assert settings.queue_depth == 32
    assert settings.queue_wait_ms == 30_000
    assert settings.batch_slots
    assert not settings.content_parts
    assert not settings.json_schema
    assert settings.sse_keepalive_ms == 0
    config = settings.engine_config()
    assert config.thinking_default and config.stop_repetition
    assert settings.compile_cache_dir == Path("/home/x/.cache/pantheon")


def test_every_variable_is_declared_once() -> None:
    names = [declaration.env for _, declaration, _ in Settings.declarations()]
    assert len(names) == len(set(names))
    assert {"BS_QUEUE_DEPTH", "QWEN35_BATCH_SLOTS"} <= set(names)


def test_empty_variable_counts_as_unset() -> None:
    environment = {declaration.env: " " for _, declaration, _ in Settings.declarations()}
    assert Settings.from_environment(environment) == Settings.from_environment({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PANTHEON_HOST", "a b"),
        ("PANTHEON_PORT", "65536"),
        ("PANTHEON_PORT", "-1"),
        ("PANTHEON_PORT", "8000.0"),
        ("PANTHEON_MODELS", "model.gguf"),
        ("PANTHEON_MAX_BODY_BYTES", "0"),
        ("PANTHEON_MAX_BODY_BYTES", "9" * 5000),
        ("PANTHEON_HEAD_TIMEOUT_MS", "0"),
        ("BS_QUEUE_DEPTH", "-1"),
        ("BS_QUEUE_DEPTH", "many"),
        ("PANTHEON_QUEUE_WAIT_MS", "1e3"),
        ("QWEN35_BATCH_SLOTS", "2"),
        ("PANTHEON_CONTENT_PARTS", "maybe"),
        ("PANTHEON_JSON_SCHEMA", "yes please"),
        ("PANTHEON_NO_THINK", "2"),
        ("PANTHEON_REPETITION_LOOP", "-1"),
        ("PANTHEON_SSE_KEEPALIVE_MS", "-1"),
        ("PANTHEON_SSE_KEEPALIVE_MS", "off"),
        ("PANTHEON_PRECISION", "FLOAT32"),
        ("PANTHEON_PRECISION", "bf16"),
        ("PANTHEON_KV_MEMORY_SHARE", "0"),
        ("PANTHEON_KV_MEMORY_SHARE", "1.1"),
        ("PANTHEON_KV_MEMORY_SHARE", "nan"),
        ("PANTHEON_KV_MEMORY_SHARE", "half"),
        ("PN_SESSION_IDLE_TTL_MS", "0"),
        ("PN_DIE_RESERVE_BYTES", "-1"),
        ("PANTHEON_COORDINATOR", "host"),
        ("PANTHEON_COORDINATOR", ":5000"),
        ("PANTHEON_COORDINATOR", "host:0"),
        ("PANTHEON_COORDINATOR", "host:65535"),
        ("PANTHEON_COORDINATOR", "host:1e3"),
        ("PANTHEON_COORDINATOR", "::1:7000"),
        ("PANTHEON_COORDINATOR", "[::1:7000"),
        ("PANTHEON_COORDINATOR", "[host]:7000"),
        ("PANTHEON_COORDINATOR", "[10.0.0.1]:7000"),
        ("PANTHEON_PROCESSES", "0"),
        ("PANTHEON_PROCESS", "1"),
        ("PN_SESSION_WATCH_GRACE_MS", "-1"),
        ("PANTHEON_MAX_WATCHES", "4097"),
        ("PANTHEON_MAX_WATCHES", "-1"),
        ("PANTHEON_MAX_MODELS", "0"),
        ("PANTHEON_MAX_MODELS", "65"),
        ("PANTHEON_SESSION_CACHE", "2"),
        ("PANTHEON_UNLOAD_DRAIN_MS", "-1"),
        ("PANTHEON_DRAIN_MS", "-1"),
        ("PANTHEON_DRAIN_MS", "forever"),
        ("PANTHEON_PRESSURE_FILE", "a\0b"),
        ("PANTHEON_MODEL_ROOT", "a\0b"),
        ("WEB_CONCURRENCY", "2"),
    ],
)
def test_bad_value_is_one_line_that_names_the_setting(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({name: value})
    message = str(caught.value)
    assert message.startswith(f"{name}: expected ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("on", True), ("0", False), ("NO", False)]
)
def test_switches(text: str, value: bool) -> None:
    assert Settings.from_environment({"PANTHEON_CONTENT_PARTS": text}).content_parts is value


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/h"}, Path("/h/.cache/pantheon")),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, Path("/c/pantheon")),
        ({"HOME": "/h", "XDG_CACHE_HOME": "relative"}, Path("/h/.cache/pantheon")),
        ({"PANTHEON_COMPILE_CACHE_DIR": "/x"}, Path("/x")),
        ({"PANTHEON_COMPILE_CACHE_DIR": "off"}, None),
    ],
)
def test_compile_cache_folder(environment: dict[str, str], folder: Path | None) -> None:
    assert Settings.from_environment(environment).compile_cache_dir == folder


def test_models_of_the_environment() -> None:
    settings = Settings.from_environment({"PANTHEON_MODELS": "path=/a.gguf;path=/b.gguf,name=b"})
    assert settings.models == (
        ModelOptions(path=Path("/a.gguf")),
        ModelOptions(path=Path("/b.gguf"), name="b"),
    )


def test_separator_alone_configures_no_model() -> None:
    settings = Settings.from_environment({"PANTHEON_MODELS": ";"})
    assert settings.models == ()
    assert settings.engine_config().models == ()


def test_engine_config_has_the_engine_s_part() -> None:
    config = Settings.from_environment(
        {
            "PANTHEON_MODELS": "path=/a.gguf",
            "BS_QUEUE_DEPTH": "5",
            "PANTHEON_QUEUE_WAIT_MS": "1500",
            "QWEN35_BATCH_SLOTS": "0",
            "PANTHEON_KV_MEMORY_SHARE": "0.25",
            "PANTHEON_NO_THINK": "1",
            "PANTHEON_REPETITION_LOOP": "0",
            "PANTHEON_NATIVE": "0",
            "PANTHEON_PRECISION": "float32",
        }
    ).engine_config()
    assert config.models == (ModelOptions(path=Path("/a.gguf")),)
    assert (config.queue_depth, config.queue_wait_s, config.batch_slots) == (5, 1.5, False)
    assert config.kv_memory_share == 0.25
    assert not config.native and Settings().engine_config().native
    assert config.precision is Precision.FLOAT32
    assert Settings().engine_config().precision is Precision.DEFAULT
    assert (config.thinking_default, config.stop_repetition) == (False, False)
    assert (config.backend, config.build) == (build_info.backend(), build_info.build())


def test_engine_config_has_the_numbers_of_sessions_and_models(tmp_path: Path) -> None:
    config = Settings.from_environment(
        {
            "PN_SESSION_IDLE_TTL_MS": "2500",
            "PN_SESSION_WATCH_GRACE_MS": "500",
            "PANTHEON_MAX_WATCHES": "3",
            "PANTHEON_MAX_MODELS": "2",
            "PANTHEON_SESSION_CACHE": "0",
            "PANTHEON_UNLOAD_DRAIN_MS": "750",
            "PANTHEON_PRESSURE_FILE": "/p",
            "PANTHEON_MODEL_ROOT": str(tmp_path),
        }
    ).engine_config()
    assert (config.session_idle_ttl_s, config.watch_grace_s) == (2.5, 0.5)
    assert (config.max_watches, config.max_models) == (3, 2)
    assert not config.session_cache
    assert config.unload_drain_s == 0.75
    assert (config.pressure_file, config.model_root) == (Path("/p"), tmp_path)


def test_processes_of_several_hosts_meet_at_an_address() -> None:
    """README, several hosts."""
    environment = {
        "PANTHEON_COORDINATOR": "10.0.0.1:7000",
        "PANTHEON_PROCESSES": "3",
        "PANTHEON_PROCESS": "2",
        "PN_DIE_RESERVE_BYTES": "5",
    }
    config = Settings.from_environment(environment).engine_config()
    assert config.hosts == HostOptions(("10.0.0.1", 7000), 3, 2)
    assert config.die_reserve_bytes == 5
    environment["PANTHEON_PROCESS"] = "3"
    with pytest.raises(SettingsError, match="PANTHEON_PROCESS: expected a number below"):
        Settings.from_environment(environment)
    with pytest.raises(SettingsError, match="PANTHEON_COORDINATOR: expected HOST:PORT"):
        Settings.from_environment({"PANTHEON_PROCESSES": "2"})
    alone = {"PANTHEON_COORDINATOR": "[::1]:7000"}
    assert Settings.from_environment(alone).engine_config().hosts is None
    two = Settings.from_environment({**alone, "PANTHEON_PROCESSES": "2"}).engine_config()
    assert two.hosts == HostOptions(("::1", 7000), 2, 0)


def test_a_model_root_that_is_no_folder_stops_the_start() -> None:
    with pytest.raises(SettingsError, match="PANTHEON_MODEL_ROOT: expected a folder"):
        Settings.from_environment({"PANTHEON_MODEL_ROOT": "/no/such/folder"})


def test_defaults_of_sessions_and_models_are_those_of_the_engine() -> None:
    """Reference, session routes: 12 h of idleness, 45 s of grace."""
    config = Settings.from_environment({}).engine_config()
    plain = EngineConfig(models=(), backend="cpu", build="")
    assert (config.session_idle_ttl_s, config.watch_grace_s) == (12 * 3600, 45)
    for name in (
        "session_idle_ttl_s",
        "watch_grace_s",
        "max_watches",
        "max_models",
        "session_cache",
        "unload_drain_s",
        "pressure_file",
        "model_root",
    ):
        assert getattr(config, name) == getattr(plain, name), name


def test_more_models_than_may_be_loaded_are_refused_in_one_line() -> None:
    environment = {
        "PANTHEON_MODELS": ";".join(f"path=/{index}.gguf" for index in range(3)),
        "PANTHEON_MAX_MODELS": "2",
    }
    with pytest.raises(
        SettingsError, match=r"^PANTHEON_MAX_MODELS: expected at least 3, .* got 2$"
    ):
        Settings.from_environment(environment)
    three = Settings.from_environment({**environment, "PANTHEON_MAX_MODELS": "3"})
    with pytest.raises(
        SettingsError, match=r"^PANTHEON_MAX_MODELS: expected at least 4, .* got 3$"
    ):
        replace(three, models=(*three.served_models, ModelOptions(path=Path("/3.gguf"))))


def test_threads_cover_watches_rows_and_queues_of_every_model_there_may_be() -> None:
    """Models loaded later find their threads: the number does not depend on those configured."""
    environment = {
        "PANTHEON_MAX_WATCHES": "10",
        "PANTHEON_MAX_MODELS": "3",
        "BS_QUEUE_DEPTH": "5",
    }
    none = Settings.from_environment({**environment, "PANTHEON_MODELS": ";"})
    two = Settings.from_environment({**environment, "PANTHEON_MODELS": "path=/a;path=/b"})
    assert none.threads == two.threads > 10 + 3 * (5 + 8)
