"""Every body that is valid under its schema becomes a model, with null read as absent."""

from __future__ import annotations

import base64
import json
import math
import random
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from codegen.__main__ import ROOT

SPEC = json.loads((ROOT / "pantheon" / "generated" / "openapi.json").read_text(encoding="utf-8"))
SCHEMAS: dict[str, Any] = SPEC["components"]["schemas"]
REQUESTS = [name for name in SCHEMAS if name.endswith("Params")]

INTEGERS = st.integers() | st.integers(-(2**1200), 2**1200)
NUMBERS = INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def bodies(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that are valid under a schema of the spec."""
    if "$ref" in schema:
        return bodies(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema:
        return st.one_of([bodies(member) for member in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    types = schema.get("type")
    if types is None:
        return ANYTHING
    return st.one_of(
        [_typed(schema, name) for name in ([types] if isinstance(types, str) else types)]
    )


def _typed(schema: dict[str, Any], name: str) -> st.SearchStrategy[Any]:
    match name:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            # JSON Schema counts 5.0 as an integer.
            integers = INTEGERS | st.floats(-1e300, 1e300).map(math.floor).map(float)
            return integers.map(abs) if schema.get("minimum") == 0 else integers
        case "number":
            return NUMBERS
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True).filter(
                lambda text: len(text) <= schema.get("maxLength", 6)
            )
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=6)
        case "array":
            low, high = schema.get("minItems", 0), schema.get("maxItems", 3)
            return st.lists(bodies(schema.get("items", {})), min_size=low, max_size=min(high, 3))
        case "object":
            members = {key: bodies(value) for key, value in schema.get("properties", {}).items()}
            required = {key: members.pop(key) for key in schema.get("required", ())}
            named = st.fixed_dictionaries(required, optional=members)
            extra = st.dictionaries(st.text(max_size=3), ANYTHING, max_size=2)
            return st.tuples(extra, named).map(lambda pair: pair[0] | pair[1])
    raise AssertionError(f"no strategy for {name}")


@pytest.mark.parametrize("name", REQUESTS)
def test_every_valid_body_becomes_a_model(generated: Any, name: str) -> None:
    model = getattr(generated.models, name)
    validator = Draft202012Validator(SCHEMAS[name] | {"components": SPEC["components"]})

    @settings(max_examples=60, deadline=None, database=None)
    @given(bodies(SCHEMAS[name]))
    def check(body: dict[str, Any]) -> None:
        assert validator.is_valid(body)
        converted = generated.parsing.to_model(body, model)
        for field in msgspec.structs.fields(model):
            value = getattr(converted, field.name)
            given_value = body.get(field.encode_name)
            # Null is absent: no request model holds None, and an absent field is unset or default.
            assert value is not None
            if given_value is None:
                assert value in (field.default, msgspec.UNSET)
            elif SCHEMAS[name]["properties"][field.encode_name].get("contentEncoding"):
                assert isinstance(value, bytes)
            elif isinstance(given_value, str | bool):
                assert value == given_value

    check()


def convert(generated: Any, **members: Any) -> Any:
    body = {"messages": [{"content": "hi"}], **members}
    return generated.parsing.to_model(body, generated.models.ChatCompletionParams)


def test_integer_valued_floats_become_integers(generated: Any) -> None:
    params = convert(generated, max_tokens=5.0, n=2.0, top_k=-0.0, seed=7.0)
    for value, expected in ((params.max_tokens, 5), (params.n, 2), (params.top_k, 0)):
        assert value == expected and type(value) is int
    assert params.seed == 7


def test_integers_become_floats_where_numbers_are_asked_for(generated: Any) -> None:
    params = convert(generated, temperature=1, top_p=10**30)
    assert type(params.temperature) is float and params.temperature == 1.0
    assert params.top_p == 1e30
    # Beyond the range of a double: clamped later like any other number out of range.
    assert convert(generated, temperature=10**400).temperature == sys.float_info.max
    assert convert(generated, temperature=-(10**400)).temperature == -sys.float_info.max


def test_seed_keeps_every_digit_of_an_integer(generated: Any) -> None:
    """Reference, row `seed`: choice i uses seed + i, which a double could not tell apart."""
    assert convert(generated, seed=2**63 + 1).seed == 2**63 + 1
    assert convert(generated, seed=10**30).seed == 10**30
    assert convert(generated, seed=1.5).seed == 1.5


def test_defaults_are_those_of_the_spec(generated: Any) -> None:
    """Reference, "Request body", column "Default"."""
    params = convert(generated)
    assert (params.temperature, params.top_p, params.top_k) == (0.7, 0.95, 40)
    assert (params.stream, params.logprobs, params.top_logprobs) == (False, False, 0)
    assert (params.presence_penalty, params.frequency_penalty) == (0.0, 0.0)
    assert (params.n, params.tool_choice) == (1, "auto")
    assert params.messages[0].role == "user"
    # Presence counts for these: an alias, and a status that is only reported on request.
    for name in ("max_tokens", "max_completion_tokens", "response_format"):
        assert getattr(params, name) is msgspec.UNSET


def test_null_is_absent_at_every_level_of_the_schema_but_kept_in_free_values(
    generated: Any,
) -> None:
    tool = {"type": "function", "function": {"parameters": {"const": None}}}
    call = {"function": {"name": "f", "arguments": {"city": None}}}
    params = convert(
        generated,
        messages=[{"role": None, "content": None, "tool_calls": [call]}],
        stream_options={"include_usage": None},
        temperature=None,
        tools=[tool],
        logit_bias={"1": None, "2": 3},
    )
    assert params.messages[0].role == "user"
    assert params.messages[0].content is msgspec.UNSET
    assert params.messages[0].tool_calls == [call]
    assert params.stream_options.include_usage is False
    assert params.temperature == 0.7
    assert params.tools == [tool]
    assert params.logit_bias == {"1": None, "2": 3}


@pytest.mark.parametrize("content", ["text", "", 7, 2.5, True, [], [{"type": "text"}], {"a": 1}])
def test_content_of_any_type_reaches_the_handler(generated: Any, content: object) -> None:
    """Reference, row `messages`: a type other than string is read as empty, not refused."""
    params = convert(generated, messages=[{"content": content}])
    assert params.messages[0].content == content


@pytest.mark.parametrize("choice", ["none", {"type": "function", "function": {"name": "X"}}])
def test_tool_choice_is_a_string_or_an_object(generated: Any, choice: object) -> None:
    assert convert(generated, tool_choice=choice).tool_choice == choice


@pytest.mark.parametrize("stop", ["", "END", [], ["", "END"]])
def test_stop_is_a_string_or_strings(generated: Any, stop: object) -> None:
    assert convert(generated, stop=stop).stop == stop


@pytest.mark.parametrize(
    ("text", "data"),
    [
        # RFC 4648, section 10.
        ("", b""),
        ("Zg==", b"f"),
        ("Zm8=", b"fo"),
        ("Zm9v", b"foo"),
        ("Zm9vYmFy", b"foobar"),
        # No base64: unpadded, padded twice, with a blank, of the URL's alphabet, no ASCII.
        ("Zg", b""),
        ("Zg==Zg==", b""),
        ("Zm9v Zm9v", b""),
        ("Zm9v\n", b""),
        ("__-_", b""),
        ("blåbær==", b""),
    ],
)
def test_text_in_base64_becomes_its_bytes(generated: Any, text: str, data: bytes) -> None:
    """What is none becomes no bytes, for the operation to refuse."""
    body = {"blob": text, "tokens": []}
    assert generated.parsing.to_model(body, generated.models.SessionRestoreParams).blob == data


@pytest.mark.parametrize("size", [3 * 2**20 - 1, 3 * 2**20, 3 * 2**20 + 1, 7 * 2**20])
def test_long_text_in_base64_is_decoded_as_a_short_one(generated: Any, size: int) -> None:
    """Steps end where groups of four characters do; padding is the end of all of it."""
    data = random.Random(size).randbytes(size)
    text = base64.b64encode(data).decode()
    read = generated.parsing.base64_bytes
    assert read(text) == data
    padded = base64.b64encode(bytes(3 * 2**20 - 1)).decode()
    for wrong in (text[:-1], text + "=", text[:-1] + "!", padded + text):
        assert read(wrong) == b""


def test_tokens_are_integers_however_they_are_written(generated: Any) -> None:
    for tokens in ([], [1, 2], [1.0, 2], [10**30]):
        body = {"blob": "", "tokens": tokens}
        params = generated.parsing.to_model(body, generated.models.SessionRestoreParams)
        assert params.tokens == tokens
        assert all(type(token) is int for token in params.tokens)


def test_optional_members_of_responses_are_left_out(generated: Any) -> None:
    """Keys that the reference calls omitted are absent, never null; `content` may be null."""
    models = generated.models
    message = models.AssistantMessage(content=None)
    choice = models.ChatCompletionChoice(index=0, message=message, finish_reason="stop")
    assert msgspec.json.encode(choice) == (
        b'{"index":0,"message":{"role":"assistant","content":null},"finish_reason":"stop"}'
    )
    closing = models.ChatCompletionChunkChoice(
        index=0, delta=models.ChatCompletionDelta(), finish_reason=None
    )
    assert msgspec.json.encode(closing) == b'{"index":0,"delta":{},"finish_reason":null}'
