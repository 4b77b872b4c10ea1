"""The spec says what the API reference says: routes, errors, fields, defaults and leniency.

The tables here are copied by hand from the reference, so that a slip in the spec shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

SPEC: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "openapi" / "pantheon.yaml").read_text(encoding="utf-8")
)
SCHEMAS = SPEC["components"]["schemas"]
OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    operation["operationId"]: (method, path, operation)
    for path, item in SPEC["paths"].items()
    for method, operation in item.items()
}


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """A validator for a schema of the spec."""
    return Draft202012Validator(schema | {"components": SPEC["components"]})


def is_valid(name: str, value: object) -> bool:
    return validator(SCHEMAS[name]).is_valid(value)


def response(operation_id: str, status: int) -> dict[str, Any]:
    found: dict[str, Any] = OPERATIONS[operation_id][2]["responses"][str(status)]
    if "$ref" in found:
        found = SPEC["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
    return found


def test_document_is_valid_openapi_3_1() -> None:
    assert SPEC["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(SPEC).iter_errors()) == []


# Reference, "Routes".
ROUTES = {
    "get_health": ("get", "/", "client operator"),
    "list_models": ("get", "/v1/models", "client"),
    "create_chat_completion": ("post", "/v1/chat/completions", "client"),
    "list_live_models": ("get", "/admin/models", "operator"),
    "load_model": ("post", "/admin/models/load", "operator"),
    "unload_model": ("post", "/admin/models/unload", "operator"),
    "list_dies": ("get", "/admin/dies", "operator"),
    "export_session": ("post", "/admin/session/export", "operator"),
    "restore_session": ("post", "/session/restore", "client"),
    "release_session": ("post", "/session/release", "client"),
    "estimate_session": ("get", "/session/estimate", "client"),
    "watch_session": ("get", "/session/watch", "client"),
}


def test_routes_are_those_of_the_reference() -> None:
    found = {
        operation_id: (method, path, " ".join(operation["tags"]))
        for operation_id, (method, path, operation) in OPERATIONS.items()
    }
    assert found == ROUTES


def test_preflight_is_described() -> None:
    """Reference, "OPTIONS *": always 200 with an empty object."""
    preflight = SPEC["x-pantheon-preflight"]
    assert (preflight["method"], preflight["path"]) == ("OPTIONS", "*")
    (status, answer), *others = preflight["operation"]["responses"].items()
    assert (status, others) == ("200", [])
    schema = Draft202012Validator(answer["content"]["application/json"]["schema"])
    assert schema.is_valid({})
    assert not schema.is_valid({"a": 1})
    assert {"Access-Control-Allow-Methods", "Access-Control-Allow-Headers"} <= set(
        answer["headers"]
    )


INVALID = "invalid_request_error"
SHUTTING_DOWN = "server_shutting_down"
# Reference, the "Error responses" tables; the 404 of the session routes is from the introduction to
# "Session routes". Additions: 408 and 413 on every POST route, 503 on what a draining server
# refuses, and the 429 of a restore whose body came together with too many other large ones.
ERRORS: dict[str, dict[int, set[str]]] = {
    "get_health": {},
    "list_models": {},
    "create_chat_completion": {
        400: {INVALID},
        404: {"model_not_found"},
        408: {INVALID},
        413: {INVALID},
        422: {"context_over_budget"},
        429: {"server_busy", "model_at_session_capacity"},
        500: {"server_error"},
        503: {"no_models_loaded", "server_memory_constrained", "server_shutting_down"},
    },
    "list_live_models": {},
    "load_model": {
        400: {INVALID, "load_failed"},
        404: {"load_failed"},
        409: {"load_failed"},
        408: {INVALID},
        413: {INVALID},
        500: {"load_failed"},
        503: {SHUTTING_DOWN},
        507: {"load_failed"},
    },
    "unload_model": {
        400: {INVALID},
        404: {"unload_failed"},
        409: {"unload_failed"},
        408: {INVALID},
        413: {INVALID},
        500: {"unload_failed"},
    },
    "list_dies": {},
    "export_session": {
        400: {INVALID, "session_export_unsupported", "session_caching_disabled"},
        404: {"session_not_found", "model_not_found"},
        408: {INVALID},
        413: {INVALID},
        429: {"session_busy"},
        500: {"server_error"},
        503: {SHUTTING_DOWN},
    },
    "restore_session": {
        400: {INVALID, "session_caching_disabled", "bad_session_blob"},
        404: {"model_not_found"},
        409: {"weights_version_mismatch"},
        408: {INVALID},
        413: {INVALID},
        429: {"model_at_session_capacity", "server_busy"},
        500: {"server_error"},
        503: {SHUTTING_DOWN},
    },
    "release_session": {400: {INVALID}, 404: {"model_not_found"}, 408: {INVALID}, 413: {INVALID}},
    "estimate_session": {400: {INVALID}},
    "watch_session": {
        400: {INVALID, "session_caching_disabled"},
        404: {"model_not_found"},
        503: {"watch_unavailable", SHUTTING_DOWN},
    },
}
EVERY_TYPE = {name for rows in ERRORS.values() for types in rows.values() for name in types}


@pytest.mark.parametrize("operation_id", ERRORS)
def test_error_rows_are_those_of_the_reference(operation_id: str) -> None:
    statuses = {int(status) for status in OPERATIONS[operation_id][2]["responses"]}
    assert statuses == {200, *ERRORS[operation_id]}
    for status, types in ERRORS[operation_id].items():
        schema = validator(response(operation_id, status)["content"]["application/json"]["schema"])
        accepted = {
            name
            for name in EVERY_TYPE | {"not_found", "other"}
            if schema.is_valid({"error": {"message": "m", "type": name, "code": None}})
        }
        assert accepted == types, status


def test_error_shape_is_closed_and_its_code_is_null() -> None:
    """Reference, "Error body format"."""
    detail = {"message": "m", "type": "t", "code": None}
    assert is_valid("Error", {"error": detail})
    assert not is_valid("Error", {"error": detail | {"code": 400}})
    assert not is_valid("Error", {"error": {"message": "m", "type": "t"}})
    assert not is_valid("Error", {"error": detail, "status": 400})


def test_unknown_route_is_the_404_of_the_reference() -> None:
    """Reference, end of "Routes"."""
    answer = SPEC["components"]["responses"]["UnknownRoute"]
    schema = validator(answer["content"]["application/json"]["schema"])
    body = {"error": {"message": "unknown route", "type": "not_found", "code": None}}
    assert schema.is_valid(body)
    assert not schema.is_valid({"error": body["error"] | {"type": "model_not_found"}})


@pytest.mark.parametrize("operation_id", OPERATIONS)
def test_every_response_declares_the_headers_of_every_response(operation_id: str) -> None:
    """Reference, introduction; Retry-After as in the errors of POST /v1/chat/completions, wherever
    the same refusals are."""
    for status in map(int, OPERATIONS[operation_id][2]["responses"]):
        headers = dict(response(operation_id, status)["headers"])
        retries = status == 503 or (status == 429 and operation_id != "export_session")
        assert ("Retry-After" in headers) == retries
        headers.pop("Retry-After", None)
        assert set(headers) == {"Access-Control-Allow-Origin", "Connection"}
    declared = SPEC["components"]["headers"]
    assert declared["AllowOrigin"]["schema"]["const"] == "*"
    assert declared["ConnectionClose"]["schema"]["const"] == "close"
    assert declared["AllowOrigin"]["required"] and declared["ConnectionClose"]["required"]


UNSET = object()
# Reference, "Request body" of POST /v1/chat/completions: JSON types and default. `session_id` and
# its aliases take anything, since a value that is no string falls through to the next.
CHAT_FIELDS: dict[str, tuple[set[str], object]] = {
    "model": ({"string"}, UNSET),
    "messages": ({"array"}, UNSET),
    "temperature": ({"number", "integer"}, 0.7),
    "top_p": ({"number", "integer"}, 0.95),
    "top_k": ({"integer"}, 40),
    "max_tokens": ({"integer"}, 1024),
    "max_completion_tokens": ({"integer"}, 1024),
    "stop": ({"string", "array"}, UNSET),
    "stream": ({"boolean"}, False),
    "stream_options": ({"object"}, UNSET),
    "seed": ({"number", "integer"}, UNSET),
    "presence_penalty": ({"number", "integer"}, 0),
    "frequency_penalty": ({"number", "integer"}, 0),
    "logit_bias": ({"object"}, UNSET),
    "logprobs": ({"boolean"}, False),
    "top_logprobs": ({"integer"}, 0),
    "n": ({"integer"}, 1),
    "response_format": ({"object"}, {"type": "text"}),
    "enable_thinking": ({"boolean"}, UNSET),
    "reasoning_budget": ({"integer"}, UNSET),
    "max_reasoning_tokens": ({"integer"}, UNSET),
    "tools": ({"array"}, UNSET),
    "tool_choice": ({"string", "object"}, "auto"),
    "session_id": ({"string", "number", "integer", "boolean", "array", "object"}, UNSET),
    "prompt_cache_key": ({"string", "number", "integer", "boolean", "array", "object"}, UNSET),
    "promptCacheKey": ({"string", "number", "integer", "boolean", "array", "object"}, UNSET),
}
WORDS: dict[str, dict[str, object]] = {"tool_choice": {"string": "required"}}
"""Samples of fields that take only some texts."""
MESSAGE = {"role": "user", "content": "hello"}
SAMPLES: dict[str, object] = {
    "string": "text",
    "integer": 3,
    "number": 2.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def test_chat_request_has_exactly_the_fields_of_the_reference() -> None:
    assert set(SCHEMAS["ChatCompletionParams"]["properties"]) == set(CHAT_FIELDS)
    assert SCHEMAS["ChatCompletionParams"]["required"] == ["messages"]
    for field, (_, default) in CHAT_FIELDS.items():
        declared = SCHEMAS["ChatCompletionParams"]["properties"][field]
        assert declared.get("default", UNSET) == default, field
    options = SCHEMAS["StreamOptions"]["properties"]
    assert options["include_usage"]["default"] is False


@pytest.mark.parametrize("field", [field for field in CHAT_FIELDS if field != "messages"])
def test_chat_request_takes_null_and_the_types_of_the_reference_alone(field: str) -> None:
    """Reference, "Request body"; null counts as absent, any other type is a 400."""
    body = {"messages": [MESSAGE]}
    assert is_valid("ChatCompletionParams", body | {field: None})
    accepted = {
        kind
        for kind, sample in (SAMPLES | WORDS.get(field, {})).items()
        if is_valid("ChatCompletionParams", body | {field: sample})
    }
    assert accepted == CHAT_FIELDS[field][0]


@pytest.mark.parametrize("word", ["none", "auto", "required"])
def test_a_choice_of_tools_is_one_of_three_words_or_an_object(word: str) -> None:
    """Reference, `tool_choice`; a word that is none of them must not be taken for `auto`."""
    body = {"messages": [MESSAGE]}
    assert is_valid("ChatCompletionParams", body | {"tool_choice": word})
    assert not is_valid("ChatCompletionParams", body | {"tool_choice": word.upper()})


@pytest.mark.parametrize(
    ("tool", "valid"),
    [
        ({"type": "function", "function": {"name": "a.b-c/d"}}, True),
        ({"function": {"name": "søk", "description": None, "parameters": None}}, True),
        ({"type": None, "function": {"name": "a", "parameters": True}, "extra": 1}, True),
        ({"type": "function", "function": {"name": "a", "parameters": {"x": [1]}}}, True),
        ({}, False),
        ({"type": "function"}, False),
        ({"type": "retrieval", "function": {"name": "a"}}, False),
        ({"function": {"name": ""}}, False),
        ({"function": {"name": 'a"b'}}, False),
        ({"function": {"name": "a\n"}}, False),
        ({"function": {"name": "a" * 257}}, False),
        ({"function": {"name": "a", "parameters": "x"}}, False),
        ({"function": {"name": "a", "description": 3}}, False),
    ],
)
def test_tools_are_functions_with_usable_names(tool: dict[str, object], valid: bool) -> None:
    """Reference, `tools`: OpenAI-format tool definitions."""
    assert is_valid("ChatCompletionParams", {"messages": [MESSAGE], "tools": [tool]}) is valid


@pytest.mark.parametrize(
    "field", ["temperature", "top_p", "presence_penalty", "frequency_penalty", "seed"]
)
@pytest.mark.parametrize("value", [-1e300, -3, 0, 5, 1e300, 10**400])
def test_numbers_of_chat_requests_have_no_bounds(field: str, value: float) -> None:
    """Reference, "Request body": what is out of range is clamped, never refused."""
    assert is_valid("ChatCompletionParams", {"messages": [MESSAGE], field: value})


@pytest.mark.parametrize(
    "field", ["top_k", "max_tokens", "max_completion_tokens", "n", "top_logprobs"]
)
@pytest.mark.parametrize("value", [-(10**30), -1, 0, 9, 5.0, 10**30])
def test_integers_of_chat_requests_have_no_bounds(field: str, value: float) -> None:
    """Reference, "Request body": what is out of range is clamped, never refused."""
    assert is_valid("ChatCompletionParams", {"messages": [MESSAGE], field: value})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "text"},
        {"content": "text"},
        {"role": None, "content": "text"},
        {"role": "developer", "content": "text"},
        {"role": "user", "content": [{"type": "text", "text": "a part"}]},
        {"role": "user", "content": 7},
        {"role": "user", "content": None},
        {"role": "user"},
        {},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": {"city": "Oslo"}}}]},
        {"role": "assistant", "content": "a", "reasoning_content": None, "unknown": 1},
        {"role": "tool", "tool_call_id": "call_1", "content": "result"},
    ],
)
def test_messages_are_as_lenient_as_the_reference(message: dict[str, object]) -> None:
    """Reference, rows `messages` and `messages[]...`."""
    assert is_valid("ChatCompletionParams", {"messages": [message]})


@pytest.mark.parametrize(
    "body",
    [
        [],
        "x",
        None,
        {},
        {"messages": []},
        {"messages": {}},
        {"messages": None},
        {"messages": ["text"]},
        {"messages": [None]},
        {"messages": [{"role": 7, "content": "a"}]},
        {"messages": [{"role": "assistant", "reasoning_content": 7}]},
        {"messages": [{"role": "assistant", "tool_calls": {}}]},
        {"messages": [{"role": "assistant", "tool_calls": ["call"]}]},
        {"messages": [MESSAGE], "stop": ["a", 1]},
        {"messages": [MESSAGE], "tools": ["tool"]},
        {"messages": [MESSAGE], "stream_options": {"include_usage": "yes"}},
        {"messages": [{"role": "function", "content": "text"}]},
        {"messages": [{"role": "", "content": "text"}]},
        {"messages": [MESSAGE], "stop": ["x"] * 65},
        {"messages": [MESSAGE], "response_format": "json_object"},
        {"messages": [MESSAGE], "n": "2"},
        {"messages": [MESSAGE], "reasoning_budget": 2.5},
    ],
)
def test_chat_requests_of_wrong_types_are_refused(body: object) -> None:
    """Reference, 400 of POST /v1/chat/completions."""
    assert not is_valid("ChatCompletionParams", body)


@pytest.mark.parametrize(
    "change",
    [
        {"stop": ""},
        {"stop": ["", "END"]},
        {"logit_bias": {"1": "x", "y": [1], "7": None, "8": 1000}},
        {"response_format": {}},
        {"response_format": {"type": "grammar"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 3}}}},
        {"tool_choice": {"type": "function", "function": {"name": "X"}}},
        {"stream_options": {"include_usage": None}},
        {"unknown": {"deep": [1]}, "min_p": 0.1},
        {"session_id": "", "prompt_cache_key": 5},
    ],
)
def test_chat_requests_are_as_lenient_as_the_reference(change: dict[str, object]) -> None:
    assert is_valid("ChatCompletionParams", {"messages": [MESSAGE]} | change)


# Reference, "Request body" of the other POST routes: required fields and JSON types.
OTHER_REQUESTS: dict[str, tuple[set[str], dict[str, str]]] = {
    "LoadModelParams": (
        {"path"},
        {
            "path": "string",
            "name": "string",
            "dies": "array",
            "quantize": "boolean",
            "ctx_cap": "integer",
            "max_sessions": "integer",
            "max_concurrent": "integer",
            "reasoning_budget": "integer",
        },
    ),
    "UnloadModelParams": ({"name"}, {"name": "string"}),
    "SessionExportParams": ({"session_id"}, {"session_id": "string", "name": "string"}),
    "SessionRestoreParams": (
        {"blob", "tokens"},
        {"blob": "string", "tokens": "array", "name": "string", "session_id": "any"},
    ),
    "SessionReleaseParams": (set(), {"name": "string", "session_id": "any"}),
}


@pytest.mark.parametrize("name", OTHER_REQUESTS)
def test_other_requests_have_exactly_the_fields_of_the_reference(name: str) -> None:
    required, fields = OTHER_REQUESTS[name]
    assert set(SCHEMAS[name]["properties"]) == set(fields)
    assert set(SCHEMAS[name].get("required", ())) == required
    whole = {field: SAMPLES[fields[field]] for field in required}
    assert is_valid(name, whole | {"unknown": 1})
    for field, kind in fields.items():
        if field in required:
            assert not is_valid(name, {k: v for k, v in whole.items() if k != field})
            assert not is_valid(name, whole | {field: None})
        else:
            assert is_valid(name, whole | {field: None})
        for other, sample in SAMPLES.items():
            assert is_valid(name, whole | {field: sample}) == (kind in ("any", other)), field


def test_load_takes_at_most_eight_dies() -> None:
    """Reference, row `dies` of POST /admin/models/load."""
    assert is_valid("LoadModelParams", {"path": "m.gguf", "dies": list(range(8))})
    assert not is_valid("LoadModelParams", {"path": "m.gguf", "dies": list(range(9))})


@pytest.mark.parametrize(
    "field", ["ctx_cap", "max_sessions", "max_concurrent", "reasoning_budget", "dies"]
)
def test_load_takes_no_negative_number(field: str) -> None:
    """No row of the table has a meaning for one; 0 is the default (reference, same place)."""
    for value, valid in ((0, True), (-1, False)):
        body = {"path": "m.gguf", field: [value] if field == "dies" else value}
        assert is_valid("LoadModelParams", body) == valid


@pytest.mark.parametrize(
    ("name", "field", "rest"),
    [
        ("ChatCompletionParams", "session_id", {"messages": [MESSAGE]}),
        ("ChatCompletionParams", "prompt_cache_key", {"messages": [MESSAGE]}),
        ("ChatCompletionParams", "promptCacheKey", {"messages": [MESSAGE]}),
        ("SessionExportParams", "session_id", {}),
        ("SessionRestoreParams", "session_id", {"blob": "", "tokens": []}),
        ("SessionReleaseParams", "session_id", {}),
        ("LoadModelParams", "name", {"path": "m.gguf"}),
    ],
)
def test_names_that_are_kept_are_bounded(name: str, field: str, rest: dict[str, object]) -> None:
    """They are kept as long as the session or the model is."""
    assert is_valid(name, rest | {field: "x" * 512})
    assert not is_valid(name, rest | {field: "x" * 513})


def test_parameters_are_those_of_the_reference() -> None:
    """Reference, "Request headers" and "Session routes"."""
    found: dict[str, set[tuple[str, str, bool]]] = {}
    for operation_id, (_, _, operation) in OPERATIONS.items():
        for parameter in operation.get("parameters", ()):
            if "$ref" in parameter:
                name = parameter["$ref"].rsplit("/", 1)[1]
                parameter = SPEC["components"]["parameters"][name]
            row = (parameter["in"], parameter["name"], parameter.get("required", False))
            found.setdefault(operation_id, set()).add(row)
    header = ("header", "X-Session-Id", False)
    optional = {name: ("query", name, False) for name in ("name", "blob_bytes", "upload_bps")}
    assert found == {
        "create_chat_completion": {header},
        "restore_session": {header},
        "release_session": {header},
        "estimate_session": {("query", "tokens", True), *optional.values()},
        "watch_session": {header, ("query", "session_id", False), optional["name"]},
    }
