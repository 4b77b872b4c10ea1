"""Tools, calls and results in the prompt, beside what the published templates write."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.tokenizer import ChatTemplate
from pantheon.engine.tools import Dialect, read_tools, render_conversation
from pantheon.engine.tools.json_dialect import JsonDialect
from pantheon.engine.tools.minicpm import MiniCpmXml
from pantheon.engine.tools.qwen import Qwen35Xml, QwenCoderXml
from tests.engine.tokenizer.test_template import GOLDEN, case_id, golden_template
from tests.engine.tools.parses import JSON, MINICPM, QWEN, TOOLS, function

PUBLISHED: dict[str, Dialect] = {
    "Qwen3-Coder": QwenCoderXml(is_qwen=True),
    "Qwen3.5-4B": Qwen35Xml(),
    "MiniCPM5-1B": MiniCpmXml(),
}
DIALECTS: tuple[Dialect, ...] = (QWEN, Qwen35Xml(), MINICPM, JSON)


def with_text(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with contents and arguments as clients send them: strings."""
    result = []
    for message in messages:
        calls = [
            {
                **call,
                "function": {
                    **call["function"],
                    "arguments": json.dumps(
                        call["function"]["arguments"], ensure_ascii=False, separators=(",", ":")
                    ),
                },
            }
            for call in message.get("tool_calls", ())
        ]
        result.append({**message, "tool_calls": calls} if calls else message)
    return result


@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "strings"])
@pytest.mark.parametrize(
    "entry",
    [
        entry
        for entry in GOLDEN["renderings"]
        if entry["template"] in PUBLISHED
        and "text" in entry
        and "tools" in GOLDEN["conversations"][entry["conversation"]]
    ],
    ids=case_id,
)
def test_the_prompt_is_what_the_published_template_makes_of_the_tools(
    entry: dict[str, Any], as_text: bool
) -> None:
    """chat/renderings.json, byte for byte: our messages, rendered without tools.

    Clients send arguments as compact JSON text; the models' own spaces come back.
    """
    conversation = GOLDEN["conversations"][entry["conversation"]]
    messages = conversation["messages"]
    dialect = PUBLISHED[entry["template"]]
    plain = render_conversation(
        with_text(messages) if as_text else messages, read_tools(conversation["tools"]), dialect
    )
    assert all(set(message) <= {"role", "content", "reasoning_content"} for message in plain)
    thinking = entry["enable_thinking"]
    text = golden_template(entry["template"]).render(
        plain,
        add_generation_prompt=entry["add_generation_prompt"],
        **({} if thinking is None else {"enable_thinking": thinking}),
    )
    assert text == entry["text"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab<é\n", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", max_size=2), inner),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(
    properties=st.dictionaries(
        st.text("xyz_", min_size=1, max_size=3),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer"]) | st.just(["string", "null"]),
                "description": st.text("ab <\n", max_size=5),
                "enum": st.lists(JSON_VALUES, max_size=2),
                "default": JSON_VALUES,
            },
        ),
        max_size=3,
    ),
    others=st.fixed_dictionaries(
        {},
        optional={
            "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
            "additionalProperties": st.booleans(),
            "required": st.just(["x"]),
        },
    ),
    description=st.none() | st.text("ab <\n", max_size=5),
    strict=st.booleans(),
)
@pytest.mark.parametrize("template", sorted(PUBLISHED))
def test_any_tool_is_described_as_by_the_published_template(
    template: str, properties: Any, others: Any, description: str | None, strict: bool
) -> None:
    """The templates in chat/, run on the same tools."""
    tool = function("a.b-c", properties, **others)
    if description is not None:
        tool["function"]["description"] = description
    if strict:
        tool["function"]["strict"] = True
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}]
    published = golden_template(template)
    plain = render_conversation(messages, read_tools([tool]), PUBLISHED[template])
    assert published.render(plain) == published.render(messages, tools=[tool])


def test_a_tool_without_parameters_or_description_is_described_as_by_the_template() -> None:
    """Qwen3-Coder.jinja on the least that a tool may be."""
    tool = {"type": "function", "function": {"name": "ping"}}
    messages = [{"role": "user", "content": "x"}]
    published = golden_template("Qwen3-Coder")
    plain = render_conversation(messages, read_tools([tool]), PUBLISHED["Qwen3-Coder"])
    assert published.render(plain) == published.render(messages, tools=[tool])


def test_models_that_are_not_qwen_are_not_called_so() -> None:
    """The default dialect is for every other model too."""
    (system, _) = render_conversation([{"role": "user", "content": "x"}], TOOLS, QWEN)
    assert system["role"] == "system" and system["content"].startswith("# Tools\n")


def test_minicpm_puts_tools_where_the_system_message_wants_them() -> None:
    """MiniCPM5-1B.jinja: `<tool_def_sep>`."""
    messages = [
        {"role": "system", "content": "A <tool_def_sep> B"},
        {"role": "user", "content": "x"},
    ]
    published = golden_template("MiniCPM5-1B")
    definitions = [tool.definition for tool in TOOLS]
    assert published.render(render_conversation(messages, TOOLS, MINICPM)) == published.render(
        messages, tools=definitions
    )


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
def test_without_tools_only_the_history_is_rendered(dialect: Dialect) -> None:
    """Reference, `tools`: ignored with tool_choice none; earlier calls and results stay."""
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U", "name": "x"},
        {
            "role": "assistant",
            "content": "C",
            "reasoning_content": "R",
            "tool_calls": [{"function": {"name": "ping", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "user", "content": "V"},
        {"role": "tool", "tool_call_id": "3", "content": None},
    ]
    system, user, assistant, results, after, last = render_conversation(messages, (), dialect)
    assert (system, user) == (messages[0], {"role": "user", "content": "U"})
    assert assistant["reasoning_content"] == "R" and assistant["content"].startswith("C\n")
    assert "ping" in assistant["content"]
    assert results["role"] == last["role"] == "user" and after == messages[5]
    assert results["content"].strip() == (
        "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
    )
    assert last["content"].strip() == "<tool_response>\n\n</tool_response>"


def test_json_dialect_is_rendered_by_a_template_without_tools() -> None:
    """A ChatML template sees three plain turns."""
    source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    text = ChatTemplate(source).render(
        render_conversation(
            [
                {"role": "user", "content": "U"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": {"name": "ping", "arguments": "{}"}}],
                },
                {"role": "tool", "content": "pong"},
            ],
            (),
            JsonDialect(),
        )
    )
    assert text == (
        '[user]U[assistant]```json\n{"function": "ping", "arguments": {}}\n```'
        "[user]<tool_response>\npong\n</tool_response>"
    )
