"""The engine's numbers as the rows of the reference (`GET /`, `/v1/models`, `/admin/*`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from pantheon.engine import (
    AttentionStatus,
    DieStatus,
    GraphCounts,
    GraphStatus,
    ModelStatus,
    PlatformStatus,
)
from pantheon.generated import models
from pantheon.handlers.logical_model import as_one


def health(platform: PlatformStatus) -> models.Health:
    """The body of `GET /`."""
    return models.Health(
        backend=_backend(platform),
        build=platform.build,
        accelerator=platform.accelerator,
        dies_visible=platform.dies_visible,
    )


def model_list(platform: PlatformStatus, instances: Sequence[ModelStatus]) -> models.ModelList:
    """The body of `GET /v1/models`: one row per served name, its replicas as one model."""
    replicas: dict[str, list[ModelStatus]] = {}
    for status in instances:
        replicas.setdefault(status.id, []).append(status)
    return models.ModelList(
        backend=_backend(platform),
        build=platform.build,
        data=[_model(as_one(of_name)) for of_name in replicas.values()],
    )


def instance_list(instances: Sequence[ModelStatus]) -> models.ModelInstanceList:
    """The body of `GET /admin/models`: every instance."""
    return models.ModelInstanceList(data=[instance_row(status) for status in instances])


def die_list(dies: Sequence[DieStatus]) -> models.DieList:
    """The body of `GET /admin/dies`."""
    return models.DieList(
        n_dies=len(dies),
        data=[
            models.Die(
                die=die.die,
                card=die.card,
                model=die.model,
                n_models=die.n_models,
                vram_budget=die.vram_budget,
                vram_used=die.vram_used,
            )
            for die in dies
        ],
    )


def _backend(platform: PlatformStatus) -> models.Backend:
    match platform.backend:
        case "cuda" | "tt" | "metal" | "cpu" as backend:
            return backend
    raise ValueError(f"expected a backend of the reference, got {platform.backend!r}")


def _model(status: ModelStatus) -> models.Model:
    attention = status.attention
    return models.Model(
        id=status.id,
        created=0,
        max_sessions=status.max_sessions,
        max_concurrent=status.max_concurrent,
        context_window=status.context_window,
        tool_choice_required_with_thinking=status.tool_choice_required_with_thinking,
        graphs=UNSET if status.graphs is None else _graphs(status.graphs.counts),
        attention=UNSET if attention is None else _attention(attention),
    )


def _graphs(counts: GraphCounts) -> models.GraphResidency:
    return models.GraphResidency(
        live=counts.live,
        total=counts.total,
        failed=counts.failed,
        ineligible=counts.ineligible,
        pending=counts.pending,
        gave_up=counts.gave_up or UNSET,
    )


def _attention(status: AttentionStatus) -> models.AttentionResidency:
    return models.AttentionResidency(
        ondie=status.ondie,
        host=status.host,
        total=status.total,
        gave_up=status.gave_up or UNSET,
        impossible=status.impossible or UNSET,
    )


def instance_row(status: ModelStatus) -> models.ModelInstance:
    """One row of `GET /admin/models`, which a load answers too."""
    attention = status.attention
    return models.ModelInstance(
        id=status.id,
        # A path of the file system need not be UTF-8; JSON must.
        path=status.path.encode("utf-8", "replace").decode("utf-8"),
        dies=list(status.dies),
        vram_bytes=status.vram_bytes,
        max_sessions=status.max_sessions,
        max_concurrent=status.max_concurrent,
        max_concurrent_configured=status.max_concurrent_configured,
        context_window=status.context_window,
        context_window_configured=status.context_window_configured,
        graphs=UNSET if status.graphs is None else _instance_graphs(status.graphs),
        attention=UNSET if attention is None else _instance_attention(attention),
    )


def _instance_graphs(status: GraphStatus) -> models.InstanceGraphResidency:
    counts = status.counts
    return models.InstanceGraphResidency(
        live=counts.live,
        total=counts.total,
        failed=counts.failed,
        gave_up=counts.gave_up,
        ineligible=counts.ineligible,
        pending=counts.pending,
        captures=status.captures,
        capture_failures=status.capture_failures,
        **{slot_class.value: _graph_class(own) for slot_class, own in status.classes.items()},
    )


def _graph_class(counts: GraphCounts) -> models.GraphClassResidency:
    return models.GraphClassResidency(
        live=counts.live,
        total=counts.total,
        failed=counts.failed,
        ineligible=counts.ineligible,
        pending=counts.pending,
    )


def _instance_attention(status: AttentionStatus) -> models.InstanceAttentionResidency:
    return models.InstanceAttentionResidency(
        ondie=status.ondie,
        host=status.host,
        total=status.total,
        gave_up=status.gave_up,
        impossible=status.impossible,
        host_engagements=status.host_engagements,
        ring_alloc_failures=status.ring_alloc_failures,
        reasons=models.HostAttentionReasons(**status.reasons) if status.host else UNSET,
    )
