"""`POST /admin/models/load` and `POST /admin/models/unload` (reference, there)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pantheon.engine import LoadFailed, LoadFailure, ModelOptions, ModelStatus, UnloadFailed
from pantheon.engine.testing import ScriptedEngine
from pantheon.generated.models import (
    LoadModelParams,
    ModelInstance,
    ModelLoadedStatus,
    UnloadModelParams,
)
from pantheon.generated.operations import LoadModelRequest, UnloadModelRequest
from pantheon.generated.parsing import to_model
from pantheon.handlers.model_lifecycle import load_model, read_options, unload_model
from pantheon.handlers.status import instance_list
from tests.handlers.calls import Client


def options(**fields: Any) -> ModelOptions:
    return read_options(to_model({"path": "m.gguf", **fields}, LoadModelParams))


def load(engine: ScriptedEngine, path: Path, **fields: Any) -> Any:
    params = to_model({"path": str(path), **fields}, LoadModelParams)
    return load_model(engine, LoadModelRequest(client=Client(), body=params)).body


def unload(engine: ScriptedEngine, name: str) -> Any:
    params = UnloadModelParams(name=name)
    return unload_model(engine, UnloadModelRequest(client=Client(), body=params)).body


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    path.touch()
    return path


def test_absent_null_and_zero_are_the_defaults() -> None:
    fields = ["name", "dies", "quantize", "ctx_cap", "max_sessions", "max_concurrent"]
    fields.append("reasoning_budget")
    expected = ModelOptions(path=Path("m.gguf"))
    assert options() == options(**dict.fromkeys(fields)) == expected
    numbers = dict.fromkeys(fields[3:], 0)
    assert options(name="", dies=[], quantize=False, **numbers) == expected


def test_every_option_reaches_the_engine() -> None:
    """The body of the reference's table."""
    assert options(
        path="/models/my-model.gguf",
        name="my-model",
        dies=[0, 1],
        quantize=True,
        ctx_cap=32768,
        max_sessions=4,
        max_concurrent=2,
        reasoning_budget=1024,
    ) == ModelOptions(
        path=Path("/models/my-model.gguf"),
        name="my-model",
        dies=(0, 1),
        quantize=True,
        ctx_cap=32768,
        max_sessions=4,
        max_concurrent=2,
        reasoning_budget=1024,
    )


@pytest.mark.parametrize("field", ["ctx_cap", "max_sessions", "max_concurrent"])
def test_huge_counts_fit_the_engine(field: str) -> None:
    assert getattr(options(**{field: 10**300}), field) == 2**31 - 1


def test_nul_in_a_path_is_a_file_that_does_not_exist() -> None:
    with pytest.raises(LoadFailed) as caught:
        options(path="/etc/passwd\0.gguf")
    assert caught.value.failure is LoadFailure.FILE_NOT_FOUND
    assert "passwd" not in str(caught.value)


def test_answer_is_the_row_of_the_list(model_file: Path) -> None:
    engine = ScriptedEngine()
    row = load(engine, model_file, max_sessions=3, max_concurrent=1, ctx_cap=100_000)
    assert isinstance(row, ModelInstance)
    assert row == instance_list(engine.models()).data[-1]
    assert (row.id, row.max_sessions, row.max_concurrent) == ("small", 3, 1)
    assert (row.context_window, row.context_window_configured) == (4096, 100_000)


def test_answer_is_a_status_when_the_row_is_gone(model_file: Path) -> None:
    class Forgetful(ScriptedEngine):
        def load(self, options: ModelOptions) -> ModelStatus | None:
            super().load(options)
            return None

    assert load(Forgetful(), model_file) == ModelLoadedStatus(status="loaded")


def test_unload_answers_the_name_and_refuses_what_is_not_there(model_file: Path) -> None:
    engine = ScriptedEngine()
    load(engine, model_file)
    assert unload(engine, "small").unloaded == "small"
    assert [model.id for model in engine.models()] == ["scripted"]
    with pytest.raises(UnloadFailed):
        unload(engine, "small")
