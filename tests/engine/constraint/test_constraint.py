"""Budget and grammar of one answer (reference, `reasoning_budget`, `response_format`)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.answer import Answer
from pantheon.engine.constraint import Constraint, GrammarCompiler, JsonGrammars, ReasoningBudget
from pantheon.engine.events import ReasoningDelta, TextDelta
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import ThinkStyle, Tokenizer
from tests.engine.pieces import END, Pieces, pieces_tokenizer
from tests.engine.tokenizer.vocabularies import byte_vocabulary

BYTES = Tokenizer(byte_vocabulary(control=["<end>"], user_defined=["<think>", "</think>", "\n\n"]))
OPEN, CLOSE, BREAKS = 257, 258, 259
BY_TOKEN, BY_TEXT = ThinkStyle(OPEN, CLOSE), ThinkStyle(None, None)
IDS = {BYTES.token_bytes.get(token): token for token in range(256)}

PIECES = Pieces([b"</", b"think", b">", b">\n\n{", b"</think>{", b"\xf0\x9f", b"\xa6\x9c", b"ab"])
TEXTUAL = pieces_tokenizer(PIECES)
GRAMMARS = {
    id(BYTES): JsonGrammars(GrammarCompiler(BYTES)),
    id(TEXTUAL): JsonGrammars(GrammarCompiler(TEXTUAL)),
}


class Run:
    """An answer with its constraint, as a generation drives them."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        start: ReasoningStart | None,
        *,
        budget: int | None = None,
        grammar: bool = False,
        limit: int = 10_000,
        stops: tuple[str, ...] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self.answer = Answer(
            decoder=tokenizer.decoder(),
            token_bytes=tokenizer.token_bytes,
            stops=stops,
            end_tokens=frozenset({256 if tokenizer is BYTES else END}),
            limit=limit,
            reasoning=start,
        )
        style = BY_TEXT if start is None else start.style
        constraint = Constraint.of(
            self.answer,
            grammar=GRAMMARS[id(tokenizer)].start(None) if grammar else None,
            budget=None if budget is None else ReasoningBudget(style, tokenizer, budget),
        )
        assert constraint is not None
        self.constraint = constraint
        self.reasoning = self.content = ""
        self.reason: str | None = None
        self.forced: list[int] = []

    def allowed(self) -> list[int] | None:
        mask = self.constraint.mask()
        if mask is None:
            return None
        assert mask.shape == (-(-len(self.tokenizer.vocabulary) // 32),)
        return [
            int(t) for t in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        ]

    def take(self, token: int) -> None:
        """Take a token, or what is allowed instead where only one is."""
        allowed = self.allowed()
        if allowed is not None and len(allowed) == 1:
            self.forced += allowed if token != allowed[0] else []
            (token,) = allowed
        free = self.constraint.free_ahead
        step = self.answer.push(SampledToken(token))
        self.constraint.accept(token)
        self.reason = step.finish_reason
        deltas = step.deltas
        if self.reason is None and (self.constraint.complete or self.constraint.dead):
            end = self.answer.end("stop")
            deltas, self.reason = (*deltas, *end.deltas), end.finish_reason
        for delta in deltas:
            if isinstance(delta, ReasoningDelta):
                self.reasoning += delta.text
            elif isinstance(delta, TextDelta):
                self.content += delta.text
        if free and self.reason is None:
            assert self.constraint.mask() is None, "free_ahead promised that nothing is forced"

    def take_all(self, *tokens: int) -> None:
        for token in tokens:
            if self.reason is None:
                self.take(token)


def byte_ids(data: bytes) -> list[int]:
    return [IDS[bytes([byte])] for byte in data]


def piece_ids(*pieces: bytes) -> list[int]:
    return [PIECES.id(piece) for piece in pieces]


# ---- reasoning budget


@pytest.mark.parametrize("budget", [1, 3, 9])
def test_the_closing_tag_is_forced_after_the_budget(budget: int) -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), budget=budget)
    run.take_all(*byte_ids(b"x" * 12))
    assert run.reasoning == "x" * budget
    assert run.content == "x" * (11 - budget)
    assert run.answer.tokens == 12, "the forced token is one of the completion's"
    assert run.answer.reasoning_tokens == budget


@pytest.mark.parametrize("budget", [13, 10**12])
def test_a_large_budget_changes_nothing(budget: int) -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), budget=budget)
    run.take_all(*byte_ids(b"x" * 12))
    assert run.reasoning == "x" * 12 and not run.forced


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_is_at_least_one_token(budget: int) -> None:
    """0 or negative switches it off, which is the caller's to do."""
    with pytest.raises(ValueError, match="at least 1 token"):
        ReasoningBudget(BY_TOKEN, BYTES, budget)


def test_once_closed_it_never_fires() -> None:
    """The budget counts only tokens of an open block: not inside a call after it."""
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), budget=10)
    run.take_all(*byte_ids(b"because"), CLOSE, *byte_ids(b"<call>a</call>, and a long answer"))
    assert not run.forced
    assert run.content == "<call>a</call>, and a long answer"


@pytest.mark.parametrize("start", [None, ReasoningStart(BY_TOKEN, open=False)])
def test_without_a_block_nothing_is_forced(start: ReasoningStart | None) -> None:
    run = Run(BYTES, start, budget=1)
    run.take_all(*byte_ids(b"a long answer"))
    assert run.content == "a long answer" and not run.forced


def test_a_block_that_the_model_opens_has_the_budget_too() -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=False), budget=2)
    run.take_all(OPEN, *byte_ids(b"xxxx"))
    assert (run.reasoning, run.content) == ("xx", "x")


def test_no_character_is_cut() -> None:
    """Up to four tokens of grace for one; then invalid bytes are cut."""
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), budget=2)
    run.take_all(*byte_ids("a🦜bc".encode()))
    assert (run.reasoning, run.content) == ("a🦜", "c")
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), budget=1)
    run.take_all(*byte_ids(b"\xf0" * 9))
    assert run.answer.reasoning_tokens == 5 and not run.answer.in_reasoning


def test_a_begun_closing_tag_is_completed() -> None:
    """Where the tag is several tokens: what the model began is not begun again."""
    run = Run(TEXTUAL, ReasoningStart(BY_TEXT, open=True), budget=2)
    run.take_all(*piece_ids(b"ab", b"</", b"ab", b"ab", b"ab", b"ab", b"ab", b"ab", b"ab"))
    assert run.reasoning == "ab"
    assert run.content == "ab"
    assert b"".join(map(TEXTUAL.token_bytes.get, run.forced)) == b"think>"


def test_the_tag_is_spelled_where_it_is_no_token() -> None:
    run = Run(TEXTUAL, ReasoningStart(BY_TEXT, open=True), budget=2)
    run.take_all(*piece_ids(*[b"ab"] * 12))
    assert (run.reasoning, run.content) == ("abab", "abab")
    assert b"".join(map(TEXTUAL.token_bytes.get, run.forced)) == b"</think>"
    assert run.answer.tokens == 12


def test_what_may_not_be_looked_ahead() -> None:
    """A step may be dispatched unread only while no next token can exhaust the budget."""
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), budget=3)
    seen = [run.constraint.free_ahead]
    for token in [*byte_ids(b"xx"), CLOSE, *byte_ids(b"x")]:
        run.take(token)
        seen.append(run.constraint.free_ahead)
    assert seen == [True, True, False, True, True]


# ---- grammar


def test_nothing_to_constrain_is_no_constraint() -> None:
    answer = Run(BYTES, None, budget=1).answer
    assert Constraint.of(answer, grammar=None, budget=None) is None


def test_without_a_format_closed_is_not_known() -> None:
    assert Run(BYTES, None, budget=1).constraint.closed is None


def test_an_answer_is_one_object_and_stops_at_once() -> None:
    run = Run(BYTES, None, grammar=True)
    run.take_all(*byte_ids(b'{"a": 1} and more'))
    assert (run.content, run.reason, run.constraint.closed) == ('{"a": 1}', "stop", True)
    assert not run.constraint.dead and not run.constraint.free_ahead


def test_an_object_cut_by_the_limit_is_not_closed() -> None:
    run = Run(BYTES, None, grammar=True, limit=5)
    run.take_all(*byte_ids(b'{"a": 1}'))
    assert (run.content, run.reason, run.constraint.closed) == ('{"a":', "length", False)


def test_an_object_cut_by_a_stop_string_is_not_closed() -> None:
    run = Run(BYTES, None, grammar=True, stops=("1}",))
    run.take_all(*byte_ids(b'{"a": 1}'))
    assert (run.content, run.reason, run.constraint.closed) == ('{"a": ', "stop", False)


def test_what_a_stop_string_held_back_is_sent_when_the_object_closes() -> None:
    run = Run(BYTES, None, grammar=True, stops=("}\n",))
    run.take_all(*byte_ids(b'{"a": 1}'))
    assert (run.content, run.reason, run.constraint.closed) == ('{"a": 1}', "stop", True)


def test_a_token_that_the_grammar_refuses_ends_the_answer() -> None:
    run = Run(BYTES, None, grammar=True)
    run.answer.push(SampledToken(IDS[b"x"]))
    run.constraint.accept(IDS[b"x"])
    assert run.constraint.dead and run.constraint.closed is False


def test_the_grammar_begins_after_the_reasoning() -> None:
    """Reasoning is free; the template's line breaks may follow it, bounded; then the object."""
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), grammar=True)
    assert run.allowed() is None
    run.take_all(*byte_ids(b"is [it"))
    assert run.allowed() is None
    run.take(CLOSE)
    assert run.allowed() == sorted([IDS[b"{"], IDS[b"\n"], BREAKS])
    run.take(IDS[b"\n"])
    assert run.allowed() == sorted([IDS[b"{"], IDS[b"\n"]])
    run.take(IDS[b"\n"])
    assert run.allowed() == [IDS[b"{"]]
    run.take_all(*byte_ids(b'{"a":1}'))
    assert (run.reasoning, run.content, run.constraint.closed) == ("is [it", '{"a":1}', True)


def test_both_breaks_in_one_token_use_up_the_framing() -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), grammar=True)
    run.take_all(CLOSE, BREAKS)
    assert run.allowed() == [IDS[b"{"]]


def test_budget_and_grammar_together() -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), grammar=True, budget=2)
    run.take_all(*byte_ids(b'xxx{"a":1}'))
    assert (run.reasoning, run.content, run.reason) == ("xx", '{"a":1}', "stop")
    assert run.forced == [CLOSE]


def test_thinking_that_takes_the_whole_limit_is_not_closed() -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=True), grammar=True, limit=6)
    run.take_all(*byte_ids(b"thinking"))
    assert (run.reason, run.constraint.closed, run.constraint.dead) == ("length", False, False)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"ab", b"</think>{", b"}"),
        (b"ab", b"</", b"think", b">\n\n{", b"}"),
        (b"ab", b"</", b"think", b">", b"\n", b"{", b"}"),
    ],
)
def test_a_tag_may_share_a_token_with_the_object(pieces: tuple[bytes, ...]) -> None:
    run = Run(TEXTUAL, ReasoningStart(BY_TEXT, open=True), grammar=True)
    run.take_all(*piece_ids(*pieces))
    assert (run.reasoning, run.content, run.reason) == ("ab", "{}", "stop")
    assert run.constraint.closed


def test_a_block_cannot_open_where_an_object_must_begin() -> None:
    run = Run(BYTES, ReasoningStart(BY_TOKEN, open=False), grammar=True)
    assert run.allowed() == [IDS[b"{"]]


def _random_token(draw: random.Random, run: Run) -> int:
    """A token that the masks allow, or any."""
    allowed = run.allowed()
    if allowed and draw.random() < 0.97:
        closing = {IDS[b"}"], IDS[b'"'], IDS[b"]"], CLOSE} if run.tokenizer is BYTES else set()
        liked = [token for token in allowed if token in closing]
        return draw.choice(liked if liked and draw.random() < 0.4 else allowed)
    return draw.randrange(-2, len(run.tokenizer.vocabulary) + 40)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    textual=st.booleans(),
    opened=st.booleans(),
    grammar=st.booleans(),
    budget=st.integers(1, 8),
)
def test_any_tokens_are_taken_without_an_error(
    seed: int, textual: bool, opened: bool, grammar: bool, budget: int
) -> None:
    """Whatever is sampled, allowed or not: what claims to be closed is an object."""
    tokenizer, style = (TEXTUAL, BY_TEXT) if textual else (BYTES, BY_TOKEN)
    run = Run(tokenizer, ReasoningStart(style, opened), grammar=grammar, budget=budget, limit=300)
    draw = random.Random(seed)
    while run.reason is None:
        token = _random_token(draw, run)
        run.take(token)
    if run.constraint.closed:
        assert isinstance(json.loads(run.content), dict)
    assert run.constraint.complete <= (run.reason in ("stop", "length"))
    within = budget + 4 + (len("</think>") if textual else 0)
    assert run.answer.reasoning_tokens <= within


@pytest.mark.parametrize("take", [lambda run: run.constraint.complete, lambda run: run.allowed()])
def test_reading_changes_nothing(take: Callable[[Run], object]) -> None:
    run = Run(BYTES, None, grammar=True)
    run.take_all(*byte_ids(b'{"a":'))
    assert take(run) == take(run)
