"""Chat templates: golden renderings, the sandbox, and the bounds of a rendering."""

import json
import time
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any

import pytest

from pantheon.engine.tokenizer import ChatTemplate, TemplateError
from tests.golden import DATA, golden_json

GOLDEN = golden_json("chat/renderings.json")


@cache
def golden_template(name: str) -> ChatTemplate:
    entry = GOLDEN["templates"][name]
    special = {key: entry[key] for key in ("bos_token", "eos_token") if entry[key] is not None}
    return ChatTemplate(
        (DATA / "chat" / entry["file"]).read_bytes().decode(),
        special_tokens=special,
        clock=lambda: datetime.fromisoformat(GOLDEN["rendered_on"]),
    )


def render(entry: dict[str, Any]) -> str:
    conversation = GOLDEN["conversations"][entry["conversation"]]
    thinking = entry["enable_thinking"]
    return golden_template(entry["template"]).render(
        conversation["messages"],
        tools=conversation.get("tools"),
        add_generation_prompt=entry["add_generation_prompt"],
        **({} if thinking is None else {"enable_thinking": thinking}),
    )


def case_id(entry: dict[str, Any]) -> str:
    return "-".join(
        str(entry[key])
        for key in ("template", "conversation", "add_generation_prompt", "enable_thinking")
    )


@pytest.mark.parametrize("entry", GOLDEN["renderings"], ids=case_id)
def test_golden_renderings(entry: dict[str, Any]) -> None:
    """tests/data/chat/renderings.json, byte for byte; a template's own refusal by its message."""
    if "text" in entry:
        assert render(entry) == entry["text"]
        return
    with pytest.raises(TemplateError) as caught:
        render(entry)
    kind, _, message = entry["error"].partition(": ")
    assert str(caught.value) == (
        message if kind == "TemplateError" else f"chat template failed: {entry['error']}"
    )


def text_of(source: str, **variables: Any) -> str:
    return ChatTemplate(source).render([], **variables)


def test_settings_of_transformers() -> None:
    """Blocks trimmed, loop controls, JSON without HTML escapes, the generation tag."""
    assert text_of("{% if true %}\n  {% if true %}x{% endif %}\n{% endif %}") == "x"
    loop = "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}"
    assert text_of(loop + "{% if i == 3 %}{% break %}{% endif %}{% endfor %}") == "023"
    value = {"b": "<é&'>", "a": [1, None]}
    assert text_of("{{ x|tojson }}", x=value) == json.dumps(value, ensure_ascii=False)
    assert text_of("{{ x|tojson(indent=2) }}", x=value) == json.dumps(
        value, ensure_ascii=False, indent=2
    )
    assert text_of("a{% generation %}b{{ 1 + 1 }}{% endgeneration %}c") == "ab2c"
    assert text_of("{{ bos_token }}{{ tools }}{{ documents }}") == "NoneNone"


def test_operators_and_filters_keep_jinjas_meaning() -> None:
    """Every operator, display and filter that is accounted for."""
    source = (
        "{{ 'a' ~ 1 ~ none }}|{{ 'a' + 'b' }}|{{ 'ab' * 2 }}|{{ [1] * 2 + [3] }}|{{ 2 ** 10 }}|"
        "{{ '%s-%d' % ('x', 7) }}|{{ '{}{:>3}'.format('x', 7) }}|{{ ['a', 'b']|join(', ') }}|"
        "{{ ', '.join(['a', 'b']|map('upper')) }}|{{ 'aba'|replace('a', 'x') }}|"
        "{{ 'aba'.replace('a', 'x') }}|{{ 'a\nb'|indent(2) }}|{{ {'k': (1, 2)} }}|"
        "{{ 'x'|format }}|{{ 'ab'.ljust(4) }}|{{ [{'n': 1}, {'n': 2}]|join('+', attribute='n') }}"
    )
    assert text_of(source) == (
        "a1None|ab|abab|[1, 1, 3]|1024|x-7|x  7|a, b|A, B|xbx|xbx|a\n  b|{'k': (1, 2)}|x|ab  |1+2"
    )


def test_macros_blocks_and_namespaces() -> None:
    source = (
        "{% macro m(x) %}<{{ x }}{{ caller() if caller }}>{% endmacro %}"
        "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}"
        "{% set b %}[{{ ns.n }}]{% endset %}{{ m(b) }}{% call m(1) %}in{% endcall %}"
        "{% filter upper %}f{{ b }}{% endfilter %}{% for a, b in {'k': 1}.items() %}{{ a }}{{ b }}"
        "{{ loop.index }}{{ loop.length }}{% endfor %}"
    )
    assert text_of(source) == "<[3]><1in>F[3]k111"


def test_refusal_carries_the_templates_message() -> None:
    with pytest.raises(TemplateError, match=r"^roles must alternate$"):
        text_of("{{ raise_exception('roles must alternate') }}")


def test_clock_is_the_callers() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", clock=lambda: datetime(2024, 7, 26))
    assert template.render([]) == "26 Jul 2024"


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ x", "{% endfor %}", "{{ x|no_such_filter }}", "{{" + "(" * 5000]
)
def test_broken_template_is_refused_at_load(source: str) -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        ChatTemplate(source)


def test_overlong_template_is_refused_at_load() -> None:
    with pytest.raises(TemplateError, match="at most 1048576 characters, found 1048577"):
        ChatTemplate("x" * ((1 << 20) + 1))


ESCAPES = [
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ messages.append(1) }}",
    "{{ {}.update(x=1) }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'x' %}",
    "{{ '{0.__class__.__init__.__globals__}'.format(namespace) }}",
    "{{ 'x'.encode() }}",
    "{{ raise_exception.__globals__ }}",
    "{{ (messages|map(attribute='__class__')|list)[0] }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_sandbox_holds(source: str) -> None:
    """Files, Python internals and the caller's data are out of reach: an error, or nothing."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    with suppress(TemplateError):
        assert ChatTemplate(source).render(messages) == ""
    assert messages == [{"role": "user", "content": "x"}]


GREEDY = {
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "nested loops": (
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    ),
    "loop condition": "{% for i in range(100000) if range(100000)|sum == 1 %}{% endfor %}",
    "macro recursion": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "macro tree": (
        "{% macro f(n) %}{% if n < 60 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}"
        "{{ f(0) }}"
    ),
    "literal output": "{% for i in range(100000) %}" + "x" * 10_000 + "{% endfor %}",
    "repetition": "{{ 'a' * 10**9 }}",
    "list repetition": "{{ [1] * 10**9 }}",
    "safe repetition": "{{ ('a'|safe) * 10**9 }}",
    "power": "{{ 10 ** (10**8) }}",
    "squaring": (
        "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}"
        "{% endfor %}"
    ),
    "percent width": "{{ '%1000000000s' % 'x' }}",
    "percent star": "{{ '%*s' % (1000000000, 'x') }}",
    "percent precision": "{{ '%.1000000000f' % 1.5 }}",
    "percent repeats": "{{ ('%s' * 100000) % (('x' * 10000,) * 100000) }}",
    "format width": "{{ '{:>1000000000}'.format('x') }}",
    "format nested width": "{{ '{:>{w}}'.format('x', w=1000000000) }}",
    "format map": "{{ '{x:>1000000000}'.format_map({'x': 1}) }}",
    "format filter": "{{ '%1000000000s'|format('x') }}",
    "center": "{{ 'x'.center(10**9) }}",
    "safe center": "{{ ('x'|safe).center(10**9) }}",
    "zfill": "{{ 'x'.zfill(10**9) }}",
    "expandtabs": "{{ '\t'.expandtabs(10**9) }}",
    "replace": "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
    "replace filter": "{{ ('x' * 100000)|replace('x', 'y' * 100000) }}",
    "replace nothing": "{{ ('x' * 100000)|replace('', 'y' * 100000) }}",
    "join": "{{ ('y' * 100000).join(range(100000)|map('string')) }}",
    "join filter": "{{ range(100000)|join('y' * 100000) }}",
    "indent": "{{ ('x\n' * 100000)|indent(9999) }}",
    "json indent": "{{ [1]|tojson(indent=1000000000) }}",
    "doubling by tilde": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
        "{% endfor %}"
    ),
    "doubling by plus": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}"
    ),
    "doubling by block": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}"
        "{% endset %}{% endfor %}"
    ),
    "doubling by list": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}{{ ns.x }}"
    ),
    "doubling by mapping": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x|tojson }}"
    ),
    "doubling by dict": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x }}"
    ),
    "large output": "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
}


@pytest.mark.parametrize("source", GREEDY.values(), ids=GREEDY.keys())
def test_greedy_template_is_stopped(source: str) -> None:
    """No rendering takes more than about a second of processor time or unbounded memory."""
    start = time.thread_time()
    with pytest.raises(TemplateError):
        ChatTemplate(source).render([])
    assert time.thread_time() - start < 2.5


def test_namespace_that_holds_itself_is_harmless() -> None:
    assert text_of("{% set n = namespace() %}{% set n.n = n %}{{ [n] }}") == "[<namespace>]"


def test_deeply_nested_input_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TemplateError, match="nests too deeply"):
        text_of("{{ x|tojson }}", x=deep)


def test_long_conversation_is_within_the_bounds() -> None:
    """2,000 turns and four million characters, with a template that works through it repeatedly."""
    messages = [
        {"role": role, "content": f"{index} " + "word " * 400}
        for index in range(1000)
        for role in ("user", "assistant")
    ]
    text = golden_template("Qwen3.5-4B").render(messages)
    assert text.count("<|im_start|>") == 2001
