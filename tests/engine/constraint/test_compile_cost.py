"""What compiling the grammars of tools costs, and who waits for it."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pantheon.engine.constraint import GrammarCompiler, ToolGrammars, UnsupportedSchema
from pantheon.engine.constraint.compiler import Compiled, KeptGrammars
from pantheon.engine.tools import Dialect, Tool, read_tools
from tests.engine.constraint.called import Called
from tests.engine.constraint.test_tool_grammars import TOOLS, compiler, turn
from tests.engine.constraint.test_tool_schemas import DIALECTS
from tests.engine.tools.parses import QWEN, function
from tests.log_records import records_of


def record(name: str, members: int) -> dict[str, Any]:
    keys = [f"{name}_{number}" for number in range(members)]
    return {"type": "object", "properties": {key: {"type": "string"} for key in keys}}


def tools_of(count: int, arguments: dict[str, Any]) -> tuple[Tool, ...]:
    """Tools of which no two have an argument in common."""
    text = json.dumps(arguments)
    return read_tools(
        [function(f"tool_{n}", json.loads(text.replace("@", f"{n}_"))) for n in range(count)]
    )


LARGE = {
    "arrays of objects": (
        20,
        {f"@{n}": {"type": "array", "items": record(f"@{n}m", 20)} for n in range(60)},
    ),
    "anything": (100, {f"@{n}": {} for n in range(40)}),
    "listed values": (
        20,
        {f"@{n}": {"enum": [f"@{n}_{i}" for i in range(200)]} for n in range(10)},
    ),
    "alternatives": (
        20,
        {"v": {"anyOf": [{**record(f"@{n}", 3), "required": [f"@{n}_0"]} for n in range(100)]}},
    ),
    "numbers": (100, {f"@{n}": {"type": "number", "minimum": n / 7} for n in range(40)}),
    "combinations": (
        20,
        {"v": {"allOf": [{"anyOf": [record(f"@{i}_{j}", 2) for j in range(6)]} for i in range(8)]}},
    ),
}


@DIALECTS
@pytest.mark.parametrize(("count", "arguments"), list(LARGE.values()), ids=list(LARGE))
def test_the_tools_of_any_request_are_compiled_in_seconds(
    dialect: Dialect, count: int, arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What is past the bounds is held to its type; the log has a few lines, whatever it is."""
    tools = tools_of(count, arguments)
    made = ToolGrammars(compiler("qwen35"), dialect)
    tokenizer = compiler("qwen35").tokenizer
    began = time.process_time()
    Called(made, tokenizer, dialect, tools)
    assert time.process_time() - began < 4
    assert len(records_of(caplog, "pantheon.engine.constraint")) <= 2
    run = Called(made, tokenizer, dialect, tools)
    run.take_text(turn(dialect, f"tool_{count - 1}", "{}"))
    assert run.call == (f"tool_{count - 1}", {})


def test_nobody_waits_for_the_grammar_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants the same one does, and it is compiled once."""
    made = ToolGrammars(compiler("qwen35"), QWEN)
    tokenizer = compiler("qwen35").tokenizer
    Called(made, tokenizer, QWEN, TOOLS)
    begun, released = threading.Event(), threading.Event()
    sources = []
    compile_source = GrammarCompiler.compile

    def slow(self: GrammarCompiler, source: str) -> Any:
        sources.append(source)
        begun.set()
        assert released.wait(20)
        return compile_source(self, source)

    monkeypatch.setattr(GrammarCompiler, "compile", slow)
    others = read_tools([function("ping", {"x": {}})])
    with ThreadPoolExecutor(3) as pool:
        try:
            waiting = [pool.submit(Called, made, tokenizer, QWEN, others) for _ in range(2)]
            assert begun.wait(20)
            known = pool.submit(Called, made, tokenizer, QWEN, TOOLS)
            assert known.result(10).may_end() is False
            assert not any(future.done() for future in waiting)
        finally:
            released.set()
        for future in waiting:
            future.result(20).take_text(turn(QWEN, "ping", "{}"))
    assert len(sources) == 1


def test_a_refusal_is_kept_and_a_failure_is_not() -> None:
    """The one costs as much again; the other may pass."""
    kept = KeptGrammars(compiler("qwen35").tokenizer)
    tries: list[str] = []

    def fail(error: Exception) -> Compiled:
        tries.append(type(error).__name__)
        raise error

    for error in (UnsupportedSchema("no"), MemoryError()):
        for _ in range(2):
            with pytest.raises(type(error)):
                kept.start(repr(error), lambda error=error: fail(error))
    assert tries == ["UnsupportedSchema", "MemoryError", "MemoryError"]
