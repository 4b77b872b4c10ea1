"""Every property of `POST /v1/chat/completions` in the spec has a test.

The table is by hand; the spec is walked. A property that is added without a test fails here, and so
does a test that is named here and does not exist.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.openapi.test_spec import ERRORS, OPERATIONS, SCHEMAS

_HERE: Final = Path(__file__).parent
_REFERENCE: Final = "#/components/schemas/"

CONTRACT = "test_completion_contract.py::"
RESPONSES = "test_completion_responses.py::"
REFUSALS = "test_completion_errors.py::"
SESSIONS = "test_session_contract.py::"
FOUR_PLACES = f"{SESSIONS}test_chat_takes_its_session_from_four_places_in_their_order"

TOOLS = "test_tool_loop.py::test_the_stream_brings_the_same_call"
UNFINISHED = "../handlers/test_tool_calls.py::test_an_unfinished_call_is_reported_and_is_no_call"

REQUEST: dict[str, str] = {
    "ChatCompletionParams.model": f"{CONTRACT}test_model",
    "ChatCompletionParams.messages": f"{CONTRACT}test_messages",
    "ChatCompletionParams.temperature": f"{CONTRACT}test_temperature",
    "ChatCompletionParams.top_p": f"{CONTRACT}test_top_p",
    "ChatCompletionParams.top_k": f"{CONTRACT}test_top_k",
    "ChatCompletionParams.max_tokens": f"{CONTRACT}test_max_tokens",
    "ChatCompletionParams.max_completion_tokens": f"{CONTRACT}test_max_completion_tokens",
    "ChatCompletionParams.stop": f"{CONTRACT}test_stop",
    "ChatCompletionParams.stream": f"{CONTRACT}test_stream",
    "ChatCompletionParams.stream_options": f"{CONTRACT}test_stream_options_include_usage",
    "ChatCompletionParams.seed": f"{CONTRACT}test_seed",
    "ChatCompletionParams.presence_penalty": f"{CONTRACT}test_presence_penalty",
    "ChatCompletionParams.frequency_penalty": f"{CONTRACT}test_frequency_penalty",
    "ChatCompletionParams.logit_bias": f"{CONTRACT}test_logit_bias",
    "ChatCompletionParams.logprobs": f"{CONTRACT}test_logprobs",
    "ChatCompletionParams.top_logprobs": f"{CONTRACT}test_top_logprobs",
    "ChatCompletionParams.n": f"{CONTRACT}test_n",
    "ChatCompletionParams.response_format": f"{CONTRACT}test_response_format",
    "ChatCompletionParams.enable_thinking": f"{CONTRACT}test_enable_thinking",
    "ChatCompletionParams.reasoning_budget": f"{CONTRACT}test_reasoning_budget",
    "ChatCompletionParams.max_reasoning_tokens": f"{CONTRACT}test_max_reasoning_tokens",
    "ChatCompletionParams.tools": TOOLS,
    "ChatCompletionParams.tool_choice": TOOLS,
    "Tool.type": TOOLS,
    "Tool.function": TOOLS,
    "FunctionDefinition.name": TOOLS,
    "FunctionDefinition.description": TOOLS,
    "FunctionDefinition.parameters": TOOLS,
    "ChatCompletionParams.session_id": FOUR_PLACES,
    "ChatCompletionParams.prompt_cache_key": FOUR_PLACES,
    "ChatCompletionParams.promptCacheKey": FOUR_PLACES,
    "ChatMessage.role": f"{CONTRACT}test_messages",
    "ChatMessage.content": f"{CONTRACT}test_messages",
    "ChatMessage.reasoning_content": f"{CONTRACT}test_messages_reasoning_content",
    "ChatMessage.tool_calls": TOOLS,
    "ChatMessage.tool_call_id": TOOLS,
    "ChatMessage.name": TOOLS,
    "StreamOptions.include_usage": f"{CONTRACT}test_stream_options_include_usage",
    "ResponseFormat.type": f"{CONTRACT}test_response_format",
    "ResponseFormat.json_schema": f"{CONTRACT}test_response_format",
}

RESPONSE: dict[str, str] = {
    "ChatCompletion.id": f"{RESPONSES}test_id",
    "ChatCompletion.object": f"{RESPONSES}test_object",
    "ChatCompletion.created": f"{RESPONSES}test_created",
    "ChatCompletion.model": f"{RESPONSES}test_model",
    "ChatCompletion.choices": f"{RESPONSES}test_choices_index",
    "ChatCompletion.usage": f"{RESPONSES}test_usage",
    "ChatCompletion.response_format_status": f"{RESPONSES}test_response_format_status",
    "ChatCompletion.n_status": f"{RESPONSES}test_n_status",
    "ChatCompletionChoice.index": f"{RESPONSES}test_choices_index",
    "ChatCompletionChoice.message": f"{RESPONSES}test_message_content",
    "ChatCompletionChoice.finish_reason": f"{RESPONSES}test_finish_reason",
    "ChatCompletionChoice.logprobs": f"{RESPONSES}test_logprobs",
    "ChatCompletionChoice.tool_call_error": TOOLS,
    "AssistantMessage.role": f"{RESPONSES}test_message_role",
    "AssistantMessage.content": f"{RESPONSES}test_message_content",
    "AssistantMessage.reasoning_content": f"{RESPONSES}test_message_reasoning_content",
    "AssistantMessage.tool_calls": TOOLS,
    "ToolCall.id": TOOLS,
    "ToolCall.type": TOOLS,
    "ToolCall.function": TOOLS,
    "FunctionCall.name": TOOLS,
    "FunctionCall.arguments": TOOLS,
    "ToolCallError.code": UNFINISHED,
    "ToolCallError.function": UNFINISHED,
    "ToolCallError.parameter": UNFINISHED,
    "ToolCallError.message": UNFINISHED,
    "Logprobs.content": f"{RESPONSES}test_logprobs",
    "TokenLogprob.token": f"{RESPONSES}test_logprobs_token_fields",
    "TokenLogprob.logprob": f"{RESPONSES}test_logprobs_token_fields",
    "TokenLogprob.bytes": f"{RESPONSES}test_logprobs_token_fields",
    "TokenLogprob.top_logprobs": f"{RESPONSES}test_logprobs_token_fields",
    "TopLogprob.token": f"{RESPONSES}test_logprobs_token_fields",
    "TopLogprob.logprob": f"{RESPONSES}test_logprobs_token_fields",
    "TopLogprob.bytes": f"{RESPONSES}test_logprobs_token_fields",
    "Usage.prompt_tokens": f"{RESPONSES}test_usage",
    "Usage.completion_tokens": f"{RESPONSES}test_usage",
    "Usage.total_tokens": f"{RESPONSES}test_usage",
    "Usage.prompt_tokens_details": f"{RESPONSES}test_usage",
    "Usage.kv_used": f"{RESPONSES}test_usage",
    "Usage.kv_cap": f"{RESPONSES}test_kv_cap",
    "Usage.session_conflict": f"{SESSIONS}test_session_conflict_is_there_only_when_it_is_so",
    "PromptTokensDetails.cached_tokens": f"{RESPONSES}test_usage",
    "ChatCompletionChunk.id": f"{RESPONSES}test_id",
    "ChatCompletionChunk.object": f"{RESPONSES}test_object",
    "ChatCompletionChunk.created": f"{RESPONSES}test_created",
    "ChatCompletionChunk.model": f"{RESPONSES}test_model",
    "ChatCompletionChunk.choices": f"{RESPONSES}test_choices_index",
    "ChatCompletionChunk.response_format_status": f"{RESPONSES}test_response_format_status",
    "ChatCompletionChunk.n_status": f"{RESPONSES}test_n_status",
    "ChatCompletionChunkChoice.index": f"{RESPONSES}test_choices_index",
    "ChatCompletionChunkChoice.delta": f"{RESPONSES}test_message_reasoning_content",
    "ChatCompletionChunkChoice.finish_reason": f"{RESPONSES}test_finish_reason",
    "ChatCompletionChunkChoice.logprobs": f"{RESPONSES}test_logprobs",
    "ChatCompletionChunkChoice.tool_call_error": TOOLS,
    "ChatCompletionDelta.role": f"{RESPONSES}test_message_role",
    "ChatCompletionDelta.reasoning_content": f"{RESPONSES}test_message_reasoning_content",
    "ChatCompletionDelta.content": f"{RESPONSES}test_message_content",
    "ChatCompletionDelta.tool_calls": TOOLS,
    "ToolCallDelta.index": TOOLS,
    "ToolCallDelta.id": TOOLS,
    "ToolCallDelta.type": TOOLS,
    "ToolCallDelta.function": TOOLS,
    "FunctionCallDelta.name": TOOLS,
    "FunctionCallDelta.arguments": TOOLS,
    "ChatCompletionUsageChunk.id": f"{RESPONSES}test_id",
    "ChatCompletionUsageChunk.object": f"{RESPONSES}test_object",
    "ChatCompletionUsageChunk.created": f"{RESPONSES}test_created",
    "ChatCompletionUsageChunk.model": f"{RESPONSES}test_model",
    "ChatCompletionUsageChunk.choices": f"{RESPONSES}test_usage_chunk",
    "ChatCompletionUsageChunk.usage": f"{RESPONSES}test_usage_chunk",
    "ContextOverBudgetEvent.error": f"{REFUSALS}test_422_context_over_budget_while_streaming",
    "ContextOverBudgetDetail.message": f"{REFUSALS}test_422_context_over_budget_while_streaming",
    "ContextOverBudgetDetail.type": f"{REFUSALS}test_422_context_over_budget_while_streaming",
    "ContextOverBudgetDetail.code": f"{REFUSALS}test_422_context_over_budget_while_streaming",
    "ContextOverBudgetDetail.kv_used": f"{REFUSALS}test_422_context_over_budget_while_streaming",
    "ContextOverBudgetDetail.kv_cap": f"{REFUSALS}test_422_context_over_budget_while_streaming",
}

ERROR_ROWS: dict[str, str] = {
    "400 invalid_request_error": f"{REFUSALS}test_400_invalid_request_error",
    "404 model_not_found": f"{REFUSALS}test_404_model_not_found",
    "408 invalid_request_error": "test_slow_clients.py::test_request_that_never_ends_is_408",
    "413 invalid_request_error": "test_body_limit.py::test_whole_body_over_the_limit_is_413",
    "422 context_over_budget": f"{REFUSALS}test_422_context_over_budget",
    "429 server_busy": f"{REFUSALS}test_429_server_busy",
    "429 model_at_session_capacity": ("test_session_errors.py::test_429_model_at_session_capacity"),
    "503 no_models_loaded": f"{REFUSALS}test_503_no_models_loaded",
    "503 server_memory_constrained": (
        "test_headers.py::test_refusals_have_the_status_and_type_of_the_reference"
    ),
    "503 server_shutting_down": (
        "test_stop.py::test_draining_server_finishes_streams_and_refuses_what_is_new"
    ),
    "500 server_error": f"{REFUSALS}test_500_server_error",
}

PARAMETERS: dict[str, str] = {"SessionIdHeader": FOUR_PLACES}


def _schema_names(node: Any) -> Iterator[str]:
    """The component schemas that a part of the spec refers to, directly."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and str(value).startswith(_REFERENCE):
                yield str(value).removeprefix(_REFERENCE)
            else:
                yield from _schema_names(value)
    elif isinstance(node, list):
        for item in node:
            yield from _schema_names(item)


def _properties(node: Any) -> set[str]:
    """`Schema.property` for every property of every schema that `node` leads to."""
    found: set[str] = set()
    waiting = list(_schema_names(node))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _schema_names(SCHEMAS[name])
    return {f"{name}.{field}" for name in found for field in SCHEMAS[name].get("properties", ())}


def _operation() -> dict[str, Any]:
    return OPERATIONS["create_chat_completion"][2]


def test_every_property_of_the_request_has_a_test() -> None:
    assert _properties(_operation()["requestBody"]) == set(REQUEST)


def test_every_property_of_the_responses_has_a_test() -> None:
    assert _properties(_operation()["responses"]["200"]) == set(RESPONSE)


def test_every_error_row_has_a_test() -> None:
    rows = ERRORS["create_chat_completion"]
    assert {f"{status} {kind}" for status in rows for kind in rows[status]} == set(ERROR_ROWS)


def test_every_parameter_has_a_test() -> None:
    names = [parameter["$ref"].rsplit("/", 1)[1] for parameter in _operation()["parameters"]]
    assert set(names) == set(PARAMETERS)


def test_tests_that_are_named_exist() -> None:
    missing = []
    for test in {*(REQUEST | RESPONSE | ERROR_ROWS | PARAMETERS).values()}:
        if test == TOOLS:
            continue
        file, _, name = test.partition("::")
        tree = ast.parse((_HERE / file).read_text("utf-8"))
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            missing.append(test)
    assert missing == []
