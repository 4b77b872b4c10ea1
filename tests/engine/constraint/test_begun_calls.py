"""Calls in free answers (reference, Tool calling: `"auto"` masks once a call opener appears)."""

from __future__ import annotations

import random

import pytest

from pantheon.engine.constraint import GrammarCompiler, ToolGrammars
from pantheon.engine.constraint.openings import JsonOpenings, Openings, QwenOpenings
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.tokenizer import ThinkStyle
from pantheon.engine.tools import Dialect
from tests.engine.constraint.called import Called
from tests.engine.constraint.test_tool_grammars import TOOLS, called
from tests.engine.pieces import Pieces, pieces_tokenizer
from tests.engine.tools.parses import JSON, QWEN, pieces_of

NAMES = frozenset({"ping", "write_file", "søk"})


def watching(dialect: Dialect) -> Openings:
    return QwenOpenings(NAMES) if dialect is QWEN else JsonOpenings(NAMES)


FOUND = [
    (QWEN, "<tool_call>\n<function=ping>", "<tool_call>\n<function=ping>"),
    (QWEN, "I will. <tool_call> \n<function=søk>", "<tool_call>\n<function=søk>"),
    (QWEN, "<function=ping>", "<function=ping>"),
    (QWEN, "Well:\n  <function=ping>", "<function=ping>"),
    (QWEN, "`<function=foo>`, then\n<function=ping>", "<function=ping>"),
    (QWEN, "<tool_call>\n<function=foo>\n<tool_call><function=ping>", None),
    (JSON, '{"function": "ping", "arguments": {', '{"function": "ping", "arguments": {'),
    (JSON, 'So ```json\n{ "name" :"ping",\n"parameters":{', '{"function": "ping", "arguments": {'),
    (JSON, '{"name": "s\\u00f8k", "arguments": {', '{"function": "søk", "arguments": {'),
    (JSON, '{"name": "foo", "arguments": {}} [{"name": "ping", "arguments": {', None),
]
NOT_FOUND = [
    (QWEN, "Some models use <function=ping> tags."),
    (QWEN, "<tool_call>\n<function=foo>\n<function=pin>"),
    (QWEN, "<tool_call>\n<function=ping"),
    (QWEN, "<tool_call> then <function=ping>"),
    (JSON, '{"name": "ping"}'),
    (JSON, '{"name": "ping", "age": {}}'),
    (JSON, '{"name": "foo", "arguments": {}}'),
    (JSON, '"{\\"name\\": \\"ping\\", \\"arguments\\": {"'),
]


@pytest.mark.parametrize(("dialect", "text", "opening"), FOUND, ids=range(len(FOUND)))
def test_an_opener_is_found_in_any_cut(dialect: Dialect, text: str, opening: str | None) -> None:
    """By text, wherever the tokens cut it."""
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            watch = watching(dialect)
            found = [watch.push(piece) for piece in pieces_of(text, (first, second)) if piece]
            assert not any(found[:-1])
            expected = opening or ("<tool_call>\n<function=ping>" if dialect is QWEN else None)
            assert found[-1] == (expected or '{"function": "ping", "arguments": {')


@pytest.mark.parametrize(("dialect", "text"), NOT_FOUND, ids=range(len(NOT_FOUND)))
def test_what_is_no_opener_stays_text(dialect: Dialect, text: str) -> None:
    """Prose about the syntax, other names, objects that are no calls."""
    for cut in range(len(text) + 1):
        watch = watching(dialect)
        assert not any(watch.push(piece) for piece in pieces_of(text, (cut,)))


def test_a_line_is_not_begun_by_forgetting_what_stood_before() -> None:
    """In a line of any length."""
    watch = QwenOpenings(NAMES)
    for _ in range(5000):
        assert watch.push("long prose ") is None
    assert watch.push("<function=ping>") is None
    assert watch.push("\n<function=ping>") is not None


@pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])
def test_whether_an_opener_may_be_completed_by_the_next_token(dialect: Dialect) -> None:
    """The next step may be dispatched unread only where it cannot."""
    watch = watching(dialect)
    seen = []
    texts = {
        QWEN: ["Well ", "<", "b> ", "<tool_call>\n", "<fun", "ction=", "pi", "ng"],
        JSON: ["Well ", "{", "} ", "```json\n", '{"na', 'me": "ping', '", "argu', 'ments": '],
    }
    for text in texts[dialect]:
        assert watch.push(text) is None
        seen.append(watch.begun)
    assert seen == [False, True, False, False, True, True, True, True]


PATH = "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n"
REST = "<parameter=content>\nb\n</parameter>\n</function>\n</tool_call>"


def test_an_answer_is_free_outside_of_calls_and_held_inside() -> None:
    """Several calls may follow one another, with text between them."""
    run = called(QWEN, TOOLS, compelled=False)
    assert run.allowed() is None
    run.take_text("I will write it. <tool_call>\n<function=write_file")
    assert run.allowed() is None
    run.take_text(">\n")
    held = run.allowed()
    assert held is not None and not held & run.tokenizer.vocabulary.end_ids
    run.take_text(PATH.partition(">\n<function=write_file>\n")[2] + REST)
    assert run.allowed() is None and not run.complete
    run.take_text("\n<tool_call>\n<function=ping>")
    assert run.allowed() is not None
    run.take_text("\n</function>\n</tool_call>")
    assert run.allowed() is None
    run.take(min(run.tokenizer.vocabulary.end_ids))
    assert [call.name for call in run.calls.calls] == ["write_file", "ping"]
    assert run.content == "I will write it."


def test_a_call_without_the_outer_tag_is_held_too() -> None:
    run = called(QWEN, TOOLS, compelled=False)
    run.take_text("<function=ping>")
    allowed = run.allowed()
    assert allowed is not None
    run.take_text("\n</function>")
    assert run.allowed() is None and run.calls.calls[0].name == "ping"


def test_arguments_of_the_json_dialect_are_held_to_their_schema() -> None:
    run = called(JSON, TOOLS, compelled=False)
    run.take_text('```json\n{"name": "write_file", "arguments": {')
    allowed = run.allowed()
    assert allowed is not None
    starts = {run.tokenizer.token_bytes.get(token)[:1] for token in allowed}
    assert starts <= {b'"', b" ", b"\n"}
    run.take_text('"path": "a", "content": "b"}}')
    assert run.allowed() is None
    run.take_text("\n```")
    run.take(min(run.tokenizer.vocabulary.end_ids))
    assert run.calls.calls[0].arguments == '{"path": "a", "content": "b"}' and run.content == ""


def test_what_shares_a_token_with_the_opener_is_taken_or_left_to_the_parser() -> None:
    """A free answer never ends for its grammar: what the grammar refuses stays free."""
    pieces = Pieces([b"ion=ping>\n</fun", b"ion=ping>\n<parameter=x>\n"])
    tokenizer = pieces_tokenizer(pieces)
    grammars = ToolGrammars(GrammarCompiler(tokenizer), QWEN)
    for piece, is_held in zip(pieces.pieces[:2], (True, False), strict=True):
        run = Called(grammars, tokenizer, QWEN, TOOLS, compelled=False)
        for byte in b"<tool_call>\n<funct":
            run.take(pieces.id(bytes([byte])))
        run.take(pieces.id(piece))
        assert (run.allowed() is not None) == is_held
        assert run.constraint is not None and not run.constraint.dead
    for byte in b"1\n</parameter>\n</function>":
        run.take(pieces.id(bytes([byte])))
    run.answer.end("stop")
    assert run.call == ("ping", {"x": "1"})


def test_calls_inside_a_think_block_are_none() -> None:
    """The watch begins behind the block."""
    style = ThinkStyle(None, None)
    pieces = Pieces([b"x"])
    tokenizer = pieces_tokenizer(pieces)
    run = Called(
        ToolGrammars(GrammarCompiler(tokenizer), QWEN),
        tokenizer,
        QWEN,
        TOOLS,
        compelled=False,
        reasoning=ReasoningStart(style, open=True),
    )
    for byte in b"<tool_call>\n<function=ping>\n":
        run.take(pieces.id(bytes([byte])))
        assert run.allowed() is None
    for byte in b"</think>\n\n<tool_call>\n<function=ping>":
        assert run.allowed() is None
        run.take(pieces.id(bytes([byte])))
    assert run.allowed() == {pieces.id(b"\n")}


@pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])
def test_any_tokens_are_taken_without_an_error(dialect: Dialect) -> None:
    """Allowed or not, and whatever the text: nothing raises and nothing ends."""
    marks = ["<tool_call>", "\n", "<function=ping>", "</function>", "{", '"name": "ping", ']
    marks += ['"arguments": {', "}", "<parameter=", "path>", "</parameter>", "```json", "é🦜"]
    for seed in range(40):
        draw = random.Random(seed)
        run = called(dialect, TOOLS, compelled=False)
        size = len(run.tokenizer.vocabulary)
        for _ in range(40):
            tokens = run.tokenizer.encode(draw.choice(marks), special=False, continued=True)
            if draw.random() < 0.2:
                tokens = [draw.randrange(size)]
            for token in tokens:
                if run.reason is None:
                    run.allowed()
                    run.take(token)
        assert run.constraint is not None
        assert not run.constraint.complete and not run.constraint.dead
