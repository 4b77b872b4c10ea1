"""Rows of `GET /`, `/v1/models`, `/admin/models` and `/admin/dies` against the reference."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pantheon.engine import AttentionStatus, DieStatus, GraphCounts, GraphStatus, PlatformStatus
from pantheon.engine.residency import SlotClass
from pantheon.engine.testing import scripted_model
from pantheon.handlers.status import die_list, health, instance_list, model_list

PLATFORM = PlatformStatus(backend="cuda", build="5d818bfd1c9a", accelerator=True, dies_visible=8)
MODEL = replace(
    scripted_model("my-model", rows=4, context_window=32000),
    path="/models/my-model.gguf",
    dies=(2, 3),
    vram_bytes=12345678,
    tool_choice_required_with_thinking=True,
    attention=AttentionStatus(ondie=10, host=0, total=10),
)


# The numbers of the reference's example, in which the classes add up.
GRAPHS = GraphStatus(
    GraphCounts(live=30, total=40, failed=0, ineligible=10, pending=0, gave_up=0),
    captures=30,
    capture_failures=0,
    classes={
        SlotClass.BATCHED_ATTN: GraphCounts(10, 10, 0, 0, 0, 0),
        SlotClass.BATCHED_SSM: GraphCounts(20, 30, 0, 10, 0, 0),
    },
)


def as_json(body: msgspec.Struct) -> Any:
    return json.loads(msgspec.json.encode(body))


def test_health_is_the_example() -> None:
    assert as_json(health(PLATFORM)) == {
        "service": "pantheon",
        "status": "ok",
        "backend": "cuda",
        "build": "5d818bfd1c9a",
        "accelerator": True,
        "dies_visible": 8,
    }


def test_model_list_is_the_example_without_graph_slots() -> None:
    assert as_json(model_list(PLATFORM, [MODEL])) == {
        "object": "list",
        "backend": "cuda",
        "build": "5d818bfd1c9a",
        "data": [
            {
                "id": "my-model",
                "object": "model",
                "created": 0,
                "owned_by": "pantheon",
                "max_sessions": 4,
                "max_concurrent": 4,
                "context_window": 32000,
                "tool_choice_required_with_thinking": True,
                "attention": {"ondie": 10, "host": 0, "total": 10},
            }
        ],
    }


def test_graphs_are_the_example() -> None:
    (row,) = as_json(model_list(PLATFORM, [replace(MODEL, graphs=GRAPHS)]))["data"]
    assert row["graphs"] == {"live": 30, "total": 40, "failed": 0, "ineligible": 10, "pending": 0}


def test_graphs_of_an_instance_are_the_example() -> None:
    (row,) = as_json(instance_list([replace(MODEL, graphs=GRAPHS)]))["data"]
    assert row["graphs"] == {
        "live": 30,
        "total": 40,
        "failed": 0,
        "gave_up": 0,
        "ineligible": 10,
        "pending": 0,
        "captures": 30,
        "capture_failures": 0,
        "batched_attn": {"live": 10, "total": 10, "failed": 0, "ineligible": 0, "pending": 0},
        "batched_ssm": {"live": 20, "total": 30, "failed": 0, "ineligible": 10, "pending": 0},
    }


def test_graphs_that_gave_up_are_told_of() -> None:
    """Reference: `gave_up` is omitted when 0."""
    counts = replace(GRAPHS.counts, failed=2, gave_up=1)
    (row,) = as_json(model_list(PLATFORM, [replace(MODEL, graphs=replace(GRAPHS, counts=counts))]))[
        "data"
    ]
    assert (row["graphs"]["failed"], row["graphs"]["gave_up"]) == (2, 1)


def test_model_list_shows_each_name_once_in_order() -> None:
    instances = [MODEL, replace(MODEL, id="other"), replace(MODEL, max_sessions=9)]
    rows = model_list(PLATFORM, instances).data
    assert [(row.id, row.max_sessions) for row in rows] == [("my-model", 13), ("other", 4)]


def test_what_serves_no_more_is_not_counted() -> None:
    """Reference, `max_concurrent`: how many requests the model actually decodes at once."""
    failed = replace(MODEL, serves=False, max_sessions=0, max_concurrent=0, context_window=64)
    (row,) = as_json(model_list(PLATFORM, [failed, MODEL]))["data"]
    assert (row["max_sessions"], row["max_concurrent"], row["context_window"]) == (4, 4, 32000)
    assert row["attention"]["total"] == 10
    (row,) = as_json(model_list(PLATFORM, [failed, failed]))["data"]
    assert (row["id"], row["max_sessions"], row["max_concurrent"]) == ("my-model", 0, 0)
    assert len(instance_list([failed, MODEL]).data) == 2


def test_attention_is_omitted_until_a_layer_was_reached() -> None:
    (row,) = as_json(model_list(PLATFORM, [replace(MODEL, attention=None)]))["data"]
    assert "attention" not in row


def test_attention_counters_show_to_clients_only_when_not_zero() -> None:
    attention = AttentionStatus(ondie=8, host=2, total=10, gave_up=2, impossible=1)
    (row,) = as_json(model_list(PLATFORM, [replace(MODEL, attention=attention)]))["data"]
    assert row["attention"] == {
        "ondie": 8,
        "host": 2,
        "total": 10,
        "gave_up": 2,
        "impossible": 1,
    }


def test_instance_row_is_the_example_without_graph_slots() -> None:
    attention = AttentionStatus(
        ondie=8,
        host=2,
        total=10,
        gave_up=2,
        impossible=0,
        host_engagements=2,
        ring_alloc_failures=10,
        reasons={"ring_alloc_failed": 2},
    )
    (row,) = as_json(instance_list([replace(MODEL, attention=attention)]))["data"]
    assert row == {
        "id": "my-model",
        "object": "model",
        "path": "/models/my-model.gguf",
        "dies": [2, 3],
        "vram_bytes": 12345678,
        "max_sessions": 4,
        "max_concurrent": 4,
        "max_concurrent_configured": 4,
        "context_window": 32000,
        "context_window_configured": 32000,
        "attention": {
            "ondie": 8,
            "host": 2,
            "total": 10,
            "gave_up": 2,
            "impossible": 0,
            "host_engagements": 2,
            "ring_alloc_failures": 10,
            "reasons": {"ring_alloc_failed": 2},
        },
    }


def test_reasons_are_only_there_with_layers_on_the_host() -> None:
    (row,) = as_json(instance_list([MODEL]))["data"]
    assert "reasons" not in row["attention"]
    assert row["attention"]["gave_up"] == 0


def test_instances_of_one_name_are_all_rows() -> None:
    assert len(instance_list([MODEL, MODEL]).data) == 2


def test_path_that_is_no_text_is_still_shown() -> None:
    (row,) = as_json(instance_list([replace(MODEL, path="/m/\udcff.gguf")]))["data"]
    assert row["path"] == "/m/?.gguf"


def test_dies_are_the_example() -> None:
    die = DieStatus(
        die=0,
        card=0,
        model="my-model",
        n_models=1,
        vram_budget=12884901888,
        vram_used=11674869760,
    )
    assert as_json(die_list([die])) == {
        "object": "list",
        "n_dies": 1,
        "data": [
            {
                "die": 0,
                "card": 0,
                "model": "my-model",
                "n_models": 1,
                "vram_budget": 12884901888,
                "vram_used": 11674869760,
            }
        ],
    }


def test_unknown_backend_is_never_shown() -> None:
    with pytest.raises(ValueError, match="quantum"):
        health(replace(PLATFORM, backend="quantum"))


def test_replicas_are_one_model_to_a_client_and_rows_to_the_operator() -> None:
    """`GET /v1/models`: one logical id per served name; the window a client may plan with is the
    smallest (as for the router's list), and what is decoded and held at once the sum."""
    served = replace(MODEL, graphs=GRAPHS)
    other = replace(
        served, dies=(4,), context_window=16_000, max_sessions=3, max_concurrent=2, attention=None
    )
    listed = as_json(model_list(PLATFORM, [served, other]))["data"]
    assert len(listed) == 1
    (row,) = listed
    assert row["context_window"] == 16_000
    assert row["max_sessions"] == served.max_sessions + 3
    assert row["max_concurrent"] == served.max_concurrent + 2
    alone = as_json(model_list(PLATFORM, [served]))["data"][0]
    assert row["attention"] == alone["attention"]
    twice = as_json(model_list(PLATFORM, [served, served]))["data"][0]
    assert twice["attention"] == {key: 2 * value for key, value in alone["attention"].items()}
    assert twice["graphs"] == {key: 2 * value for key, value in alone["graphs"].items()}
    assert len(as_json(instance_list([served, other]))["data"]) == 2
