"""The reference's example bodies are valid under the spec, and what it never sends is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

SPEC: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "openapi" / "pantheon.yaml").read_text(encoding="utf-8")
)

HEALTH = '{"service":"pantheon","status":"ok","backend":"cuda", "build":"5d818bfd1c9a",\
"accelerator":true,"dies_visible":8}'
MODELS = '{ "object": "list", "backend": "cuda", "build": "5d818bfd1c9a", "data": [ { "id":\
 "my-model", "object": "model", "created": 0, "owned_by": "pantheon", "max_sessions": 4,\
 "max_concurrent": 4, "context_window": 32000, "tool_choice_required_with_thinking": true,\
 "graphs": {"live": 30, "total": 40, "failed": 0, "ineligible": 10, "pending": 0},\
 "attention": {"ondie": 10, "host": 0, "total": 10} } ] }'
# As printed for the load response, and with the one number that only the prose gives every row.
LOADED = '{ "id": "my-model", "object": "model", "path": "/models/my-model.gguf", "dies": [0, 1],\
 "vram_bytes": 12345678, "max_sessions": 4, "max_concurrent": 4, "max_concurrent_configured": 4,\
 "context_window": 32000, "context_window_configured": 32000, "graphs": { "live": 30, "total": 40,\
 "failed": 0, "gave_up": 0, "ineligible": 10, "pending": 0, "captures": 30, "capture_failures": 0,\
 "batched_attn": {"live": 10, "total": 10, "failed": 0, "ineligible": 0, "pending": 0},\
 "batched_ssm": {"live": 20, "total": 30, "failed": 0, "ineligible": 10, "pending": 0} },\
 "attention": { "ondie": 10, "host": 0, "total": 10, "gave_up": 0, "impossible": 0,\
 "host_engagements": 0, "ring_alloc_failures": 0 } }'
INSTANCES = '{ "object": "list", "data": [ { "id": "my-model", "object": "model", "path":\
 "/models/my-model.gguf", "dies": [2, 3], "vram_bytes": 12345678, "max_sessions": 4,\
 "max_concurrent": 4, "max_concurrent_configured": 4, "context_window": 32000,\
 "context_window_configured": 32000, "graphs": { "live": 30, "total": 40, "failed": 0,\
 "gave_up": 0, "ineligible": 10, "pending": 0, "captures": 30, "capture_failures": 0,\
 "batched_attn": {"live": 10, "total": 10, "failed": 0, "ineligible": 0, "pending": 0},\
 "batched_ssm": {"live": 20, "total": 30, "failed": 0, "ineligible": 10, "pending": 0} },\
 "attention": { "ondie": 8, "host": 2, "total": 10, "gave_up": 2, "impossible": 0,\
 "host_engagements": 2, "ring_alloc_failures": 10, "reasons": {"ring_alloc_failed": 2} } } ] }'
DIES = '{ "object": "list", "n_dies": 8, "data": [ { "die": 0, "card": 0, "model": "my-model",\
 "n_models": 1, "vram_budget": 12884901888, "vram_used": 11674869760 } ] }'
COMPLETION = '{ "id": "chatcmpl-a1b2c3d4", "object": "chat.completion", "created": 1720000000,\
 "model": "my-model", "choices": [{ "index": 0, "message": { "role": "assistant",\
 "content": "Hello!", "reasoning_content": "..." }, "finish_reason": "stop" }],\
 "usage": { "prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19,\
 "prompt_tokens_details": {"cached_tokens": 0}, "kv_used": 12, "kv_cap": 32000 } }'
CHUNK = '{"id":"chatcmpl-1", "object":"chat.completion.chunk", "created":1720000000,\
 "model":"my-model", "choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}'
OVER_BUDGET = '{"error":{"message":"...","type":"context_over_budget","code":null,"kv_used":9,\
"kv_cap":8}}'
EXPORT = '{"session_id":"abc123","weights_version":123,"n_tok":4096, "blob_bytes":31457280,\
"blob_b64":"AAAA","tokens":[1,2]}'
ESTIMATE = '{"model":"my-model","tokens":4096,"prefill_tok_per_s":17.00,\
 "cold_reprefill_s":240.94,"warm_restore_s":5.391,"blob_bytes_est":67108864}'

EXAMPLES = {
    "Health": HEALTH,
    "ModelList": MODELS,
    "ModelInstance": LOADED,
    "ModelLoadedStatus": '{"status":"loaded"}',
    "ModelUnloaded": '{"unloaded": "my-model"}',
    "ModelInstanceList": INSTANCES,
    "DieList": DIES,
    "ChatCompletion": COMPLETION,
    "ChatCompletionChunk": CHUNK,
    "ContextOverBudgetEvent": OVER_BUDGET,
    "SessionExport": EXPORT,
    "SessionRestored": '{"restored":true,"session_id":"abc123","n_tok":4096}',
    "SessionReleased": '{"released":true,"session_id":"abc123"}',
    "SessionEstimate": ESTIMATE,
}


def is_valid(name: str, value: object) -> bool:
    schema = SPEC["components"]["schemas"][name] | {"components": SPEC["components"]}
    return Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_of_the_reference_is_valid(name: str) -> None:
    assert is_valid(name, json.loads(EXAMPLES[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_response_is_closed_at_every_level(name: str) -> None:
    """A member that the reference does not name is not part of a response."""

    def with_extra(value: Any) -> list[Any]:
        found: list[Any] = []
        if isinstance(value, dict):
            found.append(value | {"surprise": 1})
            for key, member in value.items():
                found += [value | {key: changed} for changed in with_extra(member)]
        elif isinstance(value, list):
            for index, member in enumerate(value):
                for changed in with_extra(member):
                    found.append([*value[:index], changed, *value[index + 1 :]])
        return found

    changed = with_extra(json.loads(EXAMPLES[name]))
    assert changed
    assert not [body for body in changed if is_valid(name, body)]


# Reference: members that may be left out; every other member of an example is always there.
OPTIONAL = {
    "context_window",
    "context_window_configured",
    "graphs",
    "attention",
    "batched_attn",
    "batched_ssm",
    "reasons",
    "ring_alloc_failed",
    "reasoning_content",
    "role",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_members_may_be_left_out_as_the_reference_says(name: str) -> None:
    def without(value: Any) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            for key, member in value.items():
                found.append((key, {k: v for k, v in value.items() if k != key}))
                found += [(left, value | {key: changed}) for left, changed in without(member)]
        elif isinstance(value, list) and value:
            found += [(left, [changed, *value[1:]]) for left, changed in without(value[0])]
        return found

    cases = without(json.loads(EXAMPLES[name]))
    assert cases
    for left_out, body in cases:
        # The role is optional in a delta of the stream alone.
        optional = left_out in OPTIONAL and (left_out != "role" or name == "ChatCompletionChunk")
        assert is_valid(name, body) == optional, (left_out, body)


def completion(**changes: Any) -> dict[str, Any]:
    """The reference's example completion, with members of its one choice changed."""
    body: dict[str, Any] = copy.deepcopy(json.loads(COMPLETION))
    body["choices"][0] |= changes
    return body


TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "write_file", "arguments": "{}"},
}
LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97]}


@pytest.mark.parametrize(
    "body",
    [
        completion(
            message={"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
            finish_reason="tool_calls",
        ),
        completion(finish_reason="length"),
        completion(finish_reason="repetition_loop"),
        completion(logprobs={"content": [LOGPROB | {"top_logprobs": [LOGPROB]}]}),
        completion(tool_call_error={"code": "unfinished", "message": "m"}),
        completion(
            tool_call_error={"code": "c", "function": "f", "parameter": "p", "message": "m"}
        ),
        completion() | {"response_format_status": "not_enforced"},
        completion() | {"n_status": "capped_to_8"},
        completion() | {"usage": json.loads(COMPLETION)["usage"] | {"session_conflict": True}},
    ],
)
def test_completion_carries_what_the_reference_lists(body: dict[str, Any]) -> None:
    """Reference, list under "Non-streaming response"."""
    assert is_valid("ChatCompletion", body)


@pytest.mark.parametrize(
    "body",
    [
        completion(finish_reason=None),
        completion(finish_reason=""),
        completion(logprobs=None),
        completion(message={"role": "assistant", "content": "a", "reasoning_content": ""}),
        completion(message={"role": "assistant", "content": "a", "tool_calls": []}),
        completion(message={"role": "assistant", "content": "a", "tool_calls": None}),
        completion() | {"n_status": None},
        completion() | {"response_format_status": "other"},
        completion() | {"usage": json.loads(COMPLETION)["usage"] | {"session_conflict": False}},
    ],
)
def test_omitted_members_are_absent_rather_than_null_or_empty(body: dict[str, Any]) -> None:
    assert not is_valid("ChatCompletion", body)


def chunk(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(CHUNK)
    body["choices"][0] |= changes
    return body


OPENING = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "f", "arguments": ""},
}


@pytest.mark.parametrize(
    "body",
    [
        chunk(delta={"reasoning_content": "hm"}),
        chunk(delta={"content": "Hello"}),
        chunk(delta={"tool_calls": [OPENING]}),
        chunk(delta={"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chunk(delta={}, finish_reason="stop"),
        chunk(delta={}, finish_reason="length") | {"response_format_status": "not_enforced"},
        chunk(
            delta={}, finish_reason="stop", tool_call_error={"code": "unfinished", "message": "m"}
        ),
    ],
)
def test_chunks_of_the_reference_are_valid(body: dict[str, Any]) -> None:
    """Reference, "Delta fields emitted in order" 1 to 5."""
    assert is_valid("ChatCompletionChunk", body)


def test_usage_chunk_has_no_choices_and_other_chunks_have_one() -> None:
    """Reference, "Delta fields emitted in order" 6."""
    usage_chunk = json.loads(CHUNK) | {"choices": [], "usage": json.loads(COMPLETION)["usage"]}
    assert is_valid("ChatCompletionUsageChunk", usage_chunk)
    assert not is_valid("ChatCompletionChunk", usage_chunk)
    assert not is_valid("ChatCompletionChunk", json.loads(CHUNK) | {"choices": []})
    assert not is_valid("ChatCompletionUsageChunk", json.loads(CHUNK))


def test_streams_name_their_events() -> None:
    """Reference, "Streaming response" and GET /session/watch."""
    chat = SPEC["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert set(chat) == {"application/json", "text/event-stream"}
    stream = chat["text/event-stream"]["x-pantheon-sse"]
    assert [event["$ref"].rsplit("/", 1)[1] for event in stream["events"]] == [
        "ChatCompletionChunk",
        "ChatCompletionUsageChunk",
        "ContextOverBudgetEvent",
    ]
    assert stream["sentinels"] == ["[DONE]"]
    watch = SPEC["paths"]["/session/watch"]["get"]["responses"]["200"]["content"]
    assert set(watch) == {"text/event-stream"}
    assert watch["text/event-stream"]["x-pantheon-sse"]["events"] == []


def test_load_answers_a_row_or_its_status() -> None:
    """Reference, POST /admin/models/load, "Response - 200"."""
    answer = SPEC["paths"]["/admin/models/load"]["post"]["responses"]["200"]
    schema = Draft202012Validator(
        answer["content"]["application/json"]["schema"] | {"components": SPEC["components"]}
    )
    assert schema.is_valid(json.loads(LOADED))
    assert schema.is_valid({"status": "loaded"})
    assert not schema.is_valid({"status": "loading"})


def test_host_attention_reasons_are_those_of_the_reference() -> None:
    """Reference, `attention` under GET /admin/models."""
    assert set(SPEC["components"]["schemas"]["HostAttentionReasons"]["properties"]) == {
        "ring_alloc_failed",
        "dec_scratch_alloc_failed",
        "kv_geometry_or_ring_wrap",
        "no_slot_decode_kernel",
        "no_flash_kernels",
        "no_batch_scratch",
        "flash_slots_off",
    }


def test_operator_graphs_have_the_classes_of_the_reference() -> None:
    """Reference, prose under GET /admin/models."""
    properties = SPEC["components"]["schemas"]["InstanceGraphResidency"]["properties"]
    classes = {name for name, schema in properties.items() if "$ref" in schema}
    assert classes == {"batched_attn", "batched_ssm", "single_ssm", "segment"}
