"""Grammars of calls (reference, Tool calling: `"required"` and a named function)."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import jsonschema
import numpy as np
import pytest

from pantheon.engine.config import ToolGrammar
from pantheon.engine.constraint import GrammarCompiler, ToolGrammars, UnsupportedSchema
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import Tokenizer, Vocabulary
from pantheon.engine.tools import Dialect, Tool, read_tools
from pantheon.engine.tools.replay import replayed_calls
from tests.engine.constraint.called import Called
from tests.engine.tools.parses import JSON, MINICPM, QWEN, function, parse
from tests.golden import golden_file

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (QWEN, JSON, MINICPM)}
VOCABULARIES = ["qwen35", "llama-minicpm5", "llama-smollm", "phi3"]
"""The last is a SentencePiece vocabulary."""


@cache
def compiler(name: str) -> GrammarCompiler:
    metadata = GGUFFile(golden_file(f"models/{name}-f32.gguf")).metadata
    return GrammarCompiler(Tokenizer(Vocabulary.from_metadata(metadata)))


@cache
def _grammars(name: str, dialect: str) -> ToolGrammars:
    return ToolGrammars(compiler(name), DIALECTS[dialect])


def grammars(name: str, dialect: Dialect) -> ToolGrammars:
    return _grammars(name, dialect.name)


def called(
    dialect: Dialect, tools: tuple[Tool, ...], vocabulary: str = "qwen35", **options: Any
) -> Called:
    tokenizer = compiler(vocabulary).tokenizer
    return Called(grammars(vocabulary, dialect), tokenizer, dialect, tools, **options)


NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
    },
    "required": ["value"],
    "additionalProperties": False,
}
TOOLS = read_tools(
    [
        function("ping"),
        function(
            "write_file",
            {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "mode": {"type": "integer"},
            },
            required=["path", "content"],
        ),
        function(
            "github.search-issues",
            {
                "state": {"enum": ["open", "closed", "a\nb", ""]},
                "limit": {"type": "integer", "minimum": 1, "exclusiveMaximum": 100},
                "ratio": {"type": "number", "minimum": -2, "maximum": 3},
                "draft": {"type": "boolean"},
                "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "since": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "mixed": {"enum": ["all", 5, None, True]},
                "any": {"type": ["string", "null"]},
            },
            required=["limit", "state"],
            additionalProperties=False,
        ),
        function(
            "søk",
            {
                "list": {"$ref": "#/$defs/node"},
                "nested": {
                    "type": "object",
                    "properties": {"a": {"type": "object", "properties": {"b": {"const": 1}}}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                "pair": {
                    "type": "array",
                    "prefixItems": [{"type": "boolean"}, {"type": "null"}],
                    "items": False,
                    "minItems": 2,
                },
            },
            required=["list"],
            **{"$defs": {"node": NODE}, "$schema": "https://json-schema.org/draft/2020-12/schema"},
        ),
        {
            "type": "function",
            "function": {
                "name": "free",
                "parameters": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        },
    ]
)
BY_NAME = {tool.name: tool for tool in TOOLS}

_CLOSERS = ("</parameter>", "\n</parameter>", "\n</function>", '"', "}", "]", "\n```", "e")


def walk(run: Called, draw: random.Random, *, steps: int = 4000, ends: float = 0) -> None:
    """Sample from the masks until the call is closed, more often what closes something.

    Args:
        steps: most tokens.
        ends: how likely an end token is where it is allowed.
    """
    tokenizer = run.tokenizer
    planned: list[int] = []
    for _ in range(steps):
        if run.reason is not None:
            return
        allowed = run.allowed()
        assert allowed is not None
        if run.ends & allowed and draw.random() < ends:
            run.take(min(run.ends))
            continue
        choices = sorted(allowed - run.ends)
        assert choices, run.written
        if planned and planned[0] in allowed:
            run.take(planned.pop(0))
            continue
        planned = []
        if draw.random() < 0.3:
            planned = tokenizer.encode(draw.choice(_CLOSERS), special=False, continued=True)
        else:
            run.take(draw.choice(choices))
    pytest.fail(f"not closed after {steps} tokens: {run.written[-200:]!r}")


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])
def test_whatever_is_allowed_leads_to_one_call(dialect: Dialect, vocabulary: str) -> None:
    """One well-formed call of an offered tool, arguments typed, required keys present."""
    names = set()
    for seed in range(30):
        run = called(dialect, TOOLS, vocabulary)
        walk(run, random.Random(seed))
        assert run.complete and run.reason == "stop"
        name, arguments = run.call
        jsonschema.validate(arguments, BY_NAME[name].parameters)
        assert parse(dialect, run.written, TOOLS).calls, "the parser alone reads it too"
        names.add(name)
    assert len(names) > 2


@pytest.mark.parametrize("name", list(BY_NAME))
@pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])
def test_a_named_function_is_the_one_called(dialect: Dialect, name: str) -> None:
    """`tool_choice` of the form {"type":"function","function":{"name":"X"}}."""
    for seed in range(8):
        run = called(dialect, TOOLS, name=name)
        walk(run, random.Random(seed))
        assert run.call[0] == name
        jsonschema.validate(run.call[1], BY_NAME[name].parameters)


FULL = '{"path": "a b", "content": "x <y> </p\\nz", "mode": -3}'


def turn(dialect: Dialect, name: str, arguments: str) -> str:
    """A call as the next turn's prompt writes it."""
    calls = replayed_calls([{"function": {"name": name, "arguments": arguments}}])
    return dialect.turn_text("", calls)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ping", "{}"),
        ("write_file", FULL),
        ("write_file", '{"path": "", "content": ""}'),
        ("github.search-issues", '{"state": "", "limit": 1}'),
        ("github.search-issues", '{"state": "a\\nb", "limit": 99, "ratio": -2, "draft": false}'),
        ("github.search-issues", '{"state": "open", "limit": 9, "ratio": 0.5, "mixed": null}'),
        ("github.search-issues", '{"state": "open", "limit": 9, "labels": ["a", "b"]}'),
        ("github.search-issues", '{"state": "open", "limit": 9, "since": null, "mixed": true}'),
        ("søk", '{"list": {"value": 1, "next": {"value": 2, "next": null}}}'),
        ("søk", '{"list": {"value": 1}, "nested": {"a": {"b": 1}}, "pair": [true, null]}'),
        ("free", '{"x y": 3, "z": 0}'),
    ],
)
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])
def test_a_call_is_allowed_as_the_next_prompt_writes_it(
    dialect: Dialect, vocabulary: str, name: str, arguments: str
) -> None:
    """So that the cache of a tool loop holds: token for token what `turn_text` writes."""
    run = called(dialect, TOOLS, vocabulary)
    run.take_text(turn(dialect, name, arguments))
    assert run.complete
    assert run.call == (name, json.loads(arguments))


CALL = "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", "I"),
        ("", "<function"),
        ("", " "),
        ("<tool_call>\n<function=", "writ_"),
        ("<tool_call>\n<function=write_file>\n", "</f"),
        ("<tool_call>\n<function=write_file>\n<parameter=", "x"),
        (CALL, "</f"),
        (CALL + "<parameter=", "p"),
        (CALL + "<parameter=mode>\n", '"'),
        (CALL + "<parameter=mode>\n1", "."),
        (CALL + "<parameter=content>\nx\n</parameter>", "<"),
        (CALL + "<parameter=content>\nx\n</parameter>\n", "x"),
    ],
)
def test_what_the_qwen_grammar_refuses(text: str, refused: str) -> None:
    """No prose, other names, wrong types, repeated keys, or an end without required keys."""
    run = called(QWEN, TOOLS)
    run.take_text(text)
    for token in run.allowed() or ():
        assert not run.tokenizer.token_bytes.get(token).startswith(refused.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "ping", "arguments": {}}',
        '{"function":"ping","arguments":{}}',
        '{\n  "name": "ping",\n  "arguments": {}\n}',
        '```json\n{"function": "ping", "arguments": {}}\n```',
    ],
)
def test_the_spellings_of_an_object(text: str) -> None:
    """Fenced or bare, `function` or `name`."""
    run = called(JSON, TOOLS)
    run.take_text(text)
    assert run.complete and run.call == ("ping", {})


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('{"function": "', "x"),
        ('{"function": "write_file", "arguments": {"path": "a"', "}"),
        ('{"function": "write_file", "arguments": {', '"mode'),
        ('{"function": "ping", "arguments": {', '"'),
        ('{"function": "free", "arguments": {"a": ', '"'),
    ],
)
def test_what_the_json_grammar_refuses(text: str, refused: str) -> None:
    """Other names and keys, wrong types, an end without required keys."""
    run = called(JSON, TOOLS)
    run.take_text(text)
    for token in run.allowed() or ():
        assert not run.tokenizer.token_bytes.get(token).startswith(refused.encode())


@pytest.mark.parametrize("order", [("path", "content"), ("content", "path")])
def test_arguments_come_in_any_order_and_optional_ones_may_be_left_out(
    order: tuple[str, str],
) -> None:
    run = called(QWEN, TOOLS)
    first, second = (f"<parameter={key}>\n{key}\n</parameter>\n" for key in order)
    run.take_text(f"<tool_call>\n<function=write_file>\n{first}{second}</function>\n</tool_call>")
    assert run.call[1] == {"path": "path", "content": "content"}


def test_a_value_may_hold_anything_but_its_closing_tag() -> None:
    """Also what looks like its beginning; control characters and any script as they are."""
    text = "</para <</parameter \r\t\x01 </function>\n<parameter=mode>\n🦜 é "
    run = called(QWEN, TOOLS)
    run.take_text(f"{CALL}<parameter=content>\n{text}\n</parameter>\n</function>\n</tool_call>")
    assert run.call[1]["content"] == text


def test_a_dialect_without_a_grammar_is_free_in_all_but_its_end() -> None:
    """MiniCPM (reference: no grammar models its attribute dialect)."""
    assert not grammars("llama-minicpm5", MINICPM).models_the_dialect
    run = called(MINICPM, TOOLS, "llama-minicpm5")
    size = len(run.tokenizer.vocabulary)
    assert run.allowed() == set(range(size)) - run.tokenizer.vocabulary.end_ids
    run.take_text('Well. <function name="ping"></function>')
    assert run.allowed() is None and not run.complete


@pytest.mark.parametrize("mode", list(ToolGrammar))
@pytest.mark.parametrize("compelled", [False, True])
def test_which_answers_are_held_to_anything(mode: ToolGrammar, compelled: bool) -> None:
    """Reference, the table of PANTHEON_TOOL_GRAMMAR."""
    run = called(QWEN, TOOLS, compelled=compelled, mode=mode)
    held = mode is ToolGrammar.ALWAYS or (compelled and mode is not ToolGrammar.NEVER)
    assert (run.constraint is not None) == held


def test_a_name_that_is_not_offered_is_refused() -> None:
    with pytest.raises(UnsupportedSchema, match="no tool on offer has the name 'nope'"):
        called(QWEN, TOOLS, name="nope")


def test_grammars_are_compiled_once_for_each_set_of_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cached by dialect, tools and choice; answers do not share their place."""
    made = ToolGrammars(compiler("qwen35"), QWEN)
    sources = []
    compile_source = GrammarCompiler.compile

    def counting(self: GrammarCompiler, source: str) -> Any:
        sources.append(source)
        return compile_source(self, source)

    monkeypatch.setattr(GrammarCompiler, "compile", counting)
    tokenizer = compiler("qwen35").tokenizer
    runs = [Called(made, tokenizer, QWEN, TOOLS) for _ in range(3)]
    assert len(sources) == 1
    runs[0].take_text(turn(QWEN, "ping", "{}"))
    assert runs[0].complete and not runs[1].complete
    runs[1].take_text(turn(QWEN, "ping", "{}"))
    for options in ({"name": "ping"}, {"compelled": False}):
        for _ in range(2):
            Called(made, tokenizer, QWEN, TOOLS, **options)
    Called(made, tokenizer, QWEN, read_tools([function("ping", {"x": {}})]))
    assert len(sources) == 4


def test_masks_are_bits_of_the_vocabulary() -> None:
    """Nothing beyond it, whatever is combined."""
    run = called(QWEN, TOOLS)
    constraint = run.constraint
    assert constraint is not None
    mask = constraint.mask()
    assert mask is not None and mask.dtype == np.uint32
    assert max(run.allowed() or ()) < len(run.tokenizer.vocabulary)
