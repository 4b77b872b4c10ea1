"""Where a compelled answer may end (reference, Tool calling: a `"required"` turn)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pantheon.engine.constraint import (
    Constraint,
    GrammarCompiler,
    JsonGrammars,
    ReasoningBudget,
    ToolGrammars,
)
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.tokenizer import ThinkStyle, Tokenizer
from pantheon.engine.tools import Dialect
from tests.engine.constraint.called import Called
from tests.engine.constraint.test_tool_grammars import TOOLS, called, compiler
from tests.engine.pieces import END, Pieces, pieces_tokenizer
from tests.engine.tokenizer.vocabularies import byte_vocabulary
from tests.engine.tools.parses import JSON, MINICPM, QWEN

DIALECTS = [QWEN, JSON, MINICPM]
IDS = ["qwen", "json", "minicpm"]

BYTES = Tokenizer(byte_vocabulary(control=["<end>"], user_defined=["<think>", "</think>"]))
END_OF_BYTES, OPEN, CLOSE = 256, 257, 258
BY_TOKEN = ThinkStyle(OPEN, CLOSE)
IDS_OF = {BYTES.token_bytes.get(token): token for token in range(256)}
BYTE_GRAMMARS = ToolGrammars(GrammarCompiler(BYTES), QWEN)

PING = "<tool_call>\n<function=ping>\n</function>\n</tool_call>"


def ended(dialect: Dialect, text: str) -> Any:
    """The call's arguments if the answer may end after a text, else None."""
    run = called(dialect, TOOLS)
    run.take_text(text)
    if not run.may_end():
        return None
    run.take(min(run.ends))
    assert run.reason == "stop" and not run.complete
    return run.call[1]


WRITE = "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n"
CONTENT = WRITE + "<parameter=content>\n"
OBJECT = '```json\n{"function": "write_file", "arguments": {"path": "a"'
MINI = '<function name="write_file"><param name="path">a</param>'


@pytest.mark.parametrize(
    ("dialect", "text", "arguments"),
    [
        (QWEN, "", None),
        (QWEN, "<tool_call>\n<function=", None),
        (QWEN, "<tool_call>\n<function=ping>\n", {}),
        (QWEN, "<tool_call>\n<function=write_file>\n", None),
        (QWEN, WRITE, None),
        (QWEN, CONTENT, {"path": "a", "content": ""}),
        (QWEN, CONTENT + "x = 1\n", {"path": "a", "content": "x = 1"}),
        (QWEN, CONTENT + "x\n</param", {"path": "a", "content": "x"}),
        (QWEN, CONTENT + "x\n</parameter>\n<parameter=mode>\n", None),
        (
            QWEN,
            CONTENT + "x\n</parameter>\n<parameter=mode>\n12",
            {"path": "a", "content": "x", "mode": 12},
        ),
        (QWEN, CONTENT + "x\n</parameter>\n</function", {"path": "a", "content": "x"}),
        (QWEN, CONTENT + "x\n</parameter>\n</function>\n", None),
        (JSON, "", None),
        (JSON, '```json\n{"function": "ping", "arguments": ', None),
        (JSON, '```json\n{"function": "ping", "arguments": {', {}),
        (JSON, '```json\n{"function": "ping", "arguments": {}}', {}),
        (JSON, '```json\n{"function": "ping", "arguments": {}}\n', None),
        (JSON, OBJECT, None),
        (JSON, OBJECT + ', "content": "x', {"path": "a", "content": "x"}),
        (JSON, OBJECT + ', "content": "x\\', None),
        (MINICPM, "", None),
        (MINICPM, "I would", None),
        (MINICPM, '<function name="ping">', {}),
        (MINICPM, MINI, None),
        (MINICPM, MINI + '<param name="content">x', {"path": "a", "content": "x"}),
    ],
)
def test_an_end_token_is_allowed_where_the_call_can_be_closed(
    dialect: Dialect, text: str, arguments: Any
) -> None:
    """Refused before the call opens; inside it allowed where closing text completes it."""
    assert ended(dialect, text) == arguments


def test_nothing_comes_behind_a_complete_call() -> None:
    """The answer ends with the call, with a grammar."""
    run = called(QWEN, TOOLS)
    run.take_text(PING)
    assert run.complete and run.reason == "stop" and run.call == ("ping", {})


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
def test_wherever_an_answer_may_end_it_is_one_call(dialect: Dialect) -> None:
    """Random answers that take every chance to end, in the end or early."""
    for seed in range(25):
        draw = random.Random(seed)
        run = called(dialect, TOOLS)
        ends = run.ends
        if dialect is MINICPM:
            run.take_text('<function name="')
            run.take_text(draw.choice(['ping"', 'write_file"><param name="path">x</param']))
            run.take_text(draw.choice(['><param name="content">', ">"]))
        for _ in range(300):
            if run.reason is not None:
                break
            allowed = run.allowed()
            choices = sorted(range(len(run.tokenizer.vocabulary)) if allowed is None else allowed)
            assert allowed is None or bool(ends & allowed) == run.may_end()
            if run.may_end() and draw.random() < 0.2:
                run.take(min(ends))
            else:
                run.take(draw.choice([token for token in choices if token not in ends]))
        if run.reason == "stop":
            (call,) = run.calls.calls
            assert isinstance(json.loads(call.arguments), dict)


def in_thought(text: str, *, budget: int | None = None, opened: bool = True) -> Called:
    run = Called(
        BYTE_GRAMMARS,
        BYTES,
        QWEN,
        TOOLS,
        reasoning=ReasoningStart(BY_TOKEN, open=opened),
        end_tokens=frozenset({END_OF_BYTES}),
    )
    if budget is not None:
        assert run.constraint is not None
        run.constraint._budget = ReasoningBudget(BY_TOKEN, BYTES, budget)
    run.take_text(text)
    return run


def test_a_think_block_is_free_but_for_end_tokens() -> None:
    """ "With thinking on the think block is unconstrained and the call is compelled from
    `</think>`"; an end token there would end the answer without a call."""
    run = in_thought("well, <tool_call> {")
    assert run.allowed() == set(range(259)) - {END_OF_BYTES}
    run.take(CLOSE)
    assert run.allowed() == {IDS_OF[b"\n"], IDS_OF[b"<"]}
    run.take_text("\n\n" + PING)
    assert run.call == ("ping", {}) and run.reasoning == "well, <tool_call> {"


def test_a_block_may_be_opened_where_a_call_must_begin() -> None:
    """Templates that leave it to the model to open the block."""
    run = in_thought("", opened=False)
    assert run.allowed() == {IDS_OF[b"<"], OPEN}
    run.take(OPEN)
    run.take_text("hm")
    run.take(CLOSE)
    run.take_text("\n" + PING)
    assert run.call == ("ping", {}) and run.reasoning == "hm"


def test_the_budget_closes_the_block_before_a_call() -> None:
    run = in_thought("ab", budget=2)
    assert run.allowed() == {CLOSE}
    run.take(CLOSE)
    run.take_text(PING)
    assert run.call == ("ping", {}) and run.reasoning == "ab"


def test_the_closing_tag_may_be_an_end_token_too() -> None:
    """A stop that spells it does not keep the block open for ever."""
    run = Called(
        BYTE_GRAMMARS,
        BYTES,
        QWEN,
        TOOLS,
        reasoning=ReasoningStart(BY_TOKEN, open=True),
        end_tokens=frozenset({END_OF_BYTES, CLOSE}),
    )
    allowed = run.allowed()
    assert allowed is not None and CLOSE in allowed and END_OF_BYTES not in allowed
    run.take(CLOSE)
    assert run.allowed() == {IDS_OF[b"\n"], IDS_OF[b"<"]}


def test_the_end_of_a_block_may_share_a_token_with_the_call() -> None:
    pieces = Pieces([b"hm", b"</think>\n\n<tool_call>\n<func"])
    tokenizer = pieces_tokenizer(pieces)
    style = ThinkStyle(None, None)
    grammars = ToolGrammars(GrammarCompiler(tokenizer), QWEN)
    run = Called(grammars, tokenizer, QWEN, TOOLS, reasoning=ReasoningStart(style, open=True))
    for piece in pieces.pieces[:2]:
        assert run.allows(pieces.id(piece)) and not run.allows(END)
        run.take(pieces.id(piece))
    for byte in b"tion=ping>\n</function>\n</tool_call>":
        run.take(pieces.id(bytes([byte])))
    assert run.call == ("ping", {}) and run.reasoning == "hm" and run.complete


def test_what_left_the_grammar_ends_the_answer() -> None:
    """A token that no mask allowed: nothing raises, and the answer ends as unfinished."""
    run = called(QWEN, TOOLS)
    run.take_text("<tool_call>\n<function=write_file>\n<parameter=path>\n")
    for text in ("a\n</parameter>\n", "prose"):
        for token in run.tokenizer.encode(text, special=False, continued=True):
            if run.reason is None:
                run.take(token)
    assert run.constraint is not None and run.constraint.dead and run.reason == "stop"
    assert run.calls.error is not None and run.calls.error.code == "unfinished_call"


def test_object_and_calls_exclude_each_other() -> None:
    """`tools` and `response_format` cannot both constrain one decode."""
    run = called(QWEN, TOOLS)
    assert run.constraint is not None
    grammar = JsonGrammars(compiler("qwen35")).start(None)
    with pytest.raises(ValueError, match="not to both"):
        Constraint(run.answer, grammar=grammar, calls=run.constraint._rule)
    assert run.constraint.closed is None and not run.constraint.relaxed
    assert not run.constraint.free_ahead
