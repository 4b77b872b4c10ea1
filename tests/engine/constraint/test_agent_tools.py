"""The tools of a coding agent, on the vocabulary of a real model."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pantheon.engine.constraint import GrammarCompiler, ToolGrammars
from pantheon.engine.tools import Dialect, Tool, read_tools
from tests.engine.constraint.called import Called
from tests.engine.constraint.test_tool_grammars import turn
from tests.engine.tokenizer.vocabularies import golden_tokenizer
from tests.engine.tools.parses import JSON, QWEN, function


def agent_tools() -> tuple[Tool, ...]:
    """Ten tools with the schemas that a coding agent sends: their shapes, not its words."""
    text, flag = {"type": "string"}, {"type": "boolean"}
    whole = {"type": "integer", "minimum": 1 - 2**53, "exclusiveMinimum": 0, "maximum": 2**53 - 1}
    todo = {
        "type": "object",
        "properties": {"content": text, "status": text, "priority": text},
        "required": ["content", "status", "priority"],
    }
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    shapes: list[tuple[str, dict[str, Any], list[str]]] = [
        ("bash", {"command": text, "timeout": whole, "workdir": text}, ["command"]),
        (
            "edit",
            {"filePath": text, "oldString": text, "newString": text, "replaceAll": flag},
            ["filePath", "oldString", "newString"],
        ),
        ("glob", {"pattern": text, "path": text}, ["pattern"]),
        ("grep", {"pattern": text, "path": text, "include": text}, ["pattern"]),
        ("read", {"filePath": text, "offset": whole, "limit": whole}, ["filePath"]),
        ("skill", {"name": text}, ["name"]),
        ("task", {"description": text, "prompt": text, "kind": text}, ["description", "prompt"]),
        ("todowrite", {"todos": {"type": "array", "items": todo}}, ["todos"]),
        (
            "webfetch",
            {"url": text, "format": {"enum": ["text", "markdown", "html"]}, "timeout": whole},
            ["url", "format"],
        ),
        ("write", {"content": text, "filePath": text}, ["content", "filePath"]),
    ]
    return read_tools(
        [
            function(f"{name}{suffix or ''}", properties, required=required, **draft)
            for suffix in range(6)
            for name, properties, required in shapes
        ]
    )


CALLS = [
    (
        "edit3",
        {
            "filePath": "a.py",
            "oldString": "if (a<b) {",
            "newString": "x\n</p>\n",
            "replaceAll": True,
        },
    ),
    ("todowrite", {"todos": [{"content": "x", "status": "open", "priority": "high"}]}),
    ("webfetch5", {"url": "http://example.com/", "format": "html", "timeout": 30}),
    ("bash", {"command": "ls -la | grep 'x' && echo \"é 🦜\"", "timeout": 120000}),
]


@pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])
def test_sixty_tools_of_an_agent_on_a_vocabulary_of_a_real_model(dialect: Dialect) -> None:
    """150,000 tokens: compiled within a second, a token's mask in a millisecond or two."""
    tools = agent_tools()
    assert len(tools) == 60
    tokenizer = golden_tokenizer("qwen35")
    made = ToolGrammars(GrammarCompiler(tokenizer), dialect)
    began = time.process_time()
    Called(made, tokenizer, dialect, tools)
    assert time.process_time() - began < 1
    tokens, spent = 0, 0.0
    for name, arguments in CALLS:
        run = Called(made, tokenizer, dialect, tools)
        text = turn(dialect, name, json.dumps(arguments, ensure_ascii=False))
        ids = tokenizer.encode(text, special=False)
        began = time.process_time()
        for token in ids:
            assert run.constraint is not None
            run.constraint.mask()
            run.take(token)
        spent += time.process_time() - began
        tokens += len(ids)
        assert run.complete and run.call == (name, arguments)
    # A few times what is needed on a machine with nothing else to do.
    assert spent / tokens < 0.004
