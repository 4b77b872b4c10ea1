"""`POST /admin/models/load` and `POST /admin/models/unload` over an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pantheon.engine import Engine, InvalidRequest, LoadFailed, LoadFailure, ModelOptions
from pantheon.generated.models import LoadModelParams, ModelLoadedStatus, ModelUnloaded
from pantheon.generated.operations import (
    LoadModel200Json,
    LoadModelRequest,
    LoadModelResponse,
    UnloadModel200Json,
    UnloadModelRequest,
    UnloadModelResponse,
)
from pantheon.handlers.sampling_params import value_or_none
from pantheon.handlers.session_id import model_name
from pantheon.handlers.status import instance_row

_MOST: Final = 2**31 - 1
"""Above it a count of tokens, sessions or requests means only: as many as there can be."""


def load_model(engine: Engine, request: LoadModelRequest) -> LoadModelResponse:
    """Load a model, however long it takes.

    Raises:
        EngineError: see `Engine.load`.
    """
    status = engine.load(read_options(request.body))
    return LoadModel200Json(ModelLoadedStatus() if status is None else instance_row(status))


def unload_model(engine: Engine, request: UnloadModelRequest) -> UnloadModelResponse:
    """Unload a model when what runs on it has ended.

    Raises:
        EngineError: see `Engine.unload`.
    """
    engine.unload(request.body.name)
    return UnloadModel200Json(ModelUnloaded(unloaded=request.body.name))


def read_options(params: LoadModelParams) -> ModelOptions:
    """What a validated body asks for.

    Raises:
        LoadFailed: the path cannot be that of a file.
        InvalidRequest: the name cannot be shown in a line of a list or a log.
    """
    name = model_name(params.name)
    if name is not None and not (name.isprintable() and name.strip()):
        raise InvalidRequest("name: expected printable characters and not only blanks")
    if "\0" in params.path:
        raise LoadFailed(LoadFailure.FILE_NOT_FOUND, "path: no file has a name with a NUL in it")
    return ModelOptions(
        path=Path(params.path),
        name=name,
        ctx_cap=min(params.ctx_cap, _MOST),
        max_sessions=min(params.max_sessions, _MOST),
        max_concurrent=min(params.max_concurrent, _MOST),
        reasoning_budget=min(params.reasoning_budget, _MOST),
        # An empty list names no die.
        dies=tuple(value_or_none(params.dies) or ()) or None,
        quantize=params.quantize,
    )
