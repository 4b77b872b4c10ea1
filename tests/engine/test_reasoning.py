"""Reasoning and content of an answer (reference, `reasoning_content`)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.reasoning import Phase, ReasoningStart
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import ThinkStyle, Tokenizer
from tests.engine.answers import (
    BY_TEXT,
    BY_TOKEN,
    BYTES,
    CLOSE,
    END_TOKEN,
    OPEN,
    answer_of,
    ids_of,
    joined,
    run,
)
from tests.engine.pieces import END, Pieces, pieces_tokenizer
from tests.engine.tokenizer.vocabularies import byte_vocabulary

OPEN_BLOCK = [pytest.param(BY_TOKEN, id="tokens"), pytest.param(BY_TEXT, id="text")]


def tokens_of(text: str, style: ThinkStyle) -> list[int]:
    """Byte tokens; the tags as their own tokens where the style has them."""
    if style is BY_TEXT:
        return ids_of(text.encode())
    return BYTES.encode(text, special=False)


@pytest.mark.parametrize("style", OPEN_BLOCK)
@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("because\n</think>\n\nOK", "because", "OK"),
        ("because</think>OK", "because", "OK"),
        ("\n\na\n\nb\n\n</think>\n\n\n\nOK\n", "a\n\nb", "OK\n"),
        ("\n</think>\n\nOK", "", "OK"),
        ("</think>OK", "", "OK"),
        ("weighing </th it</think>Answer.", "weighing </th it", "Answer."),
        ("a<think>b</think>c", "a<think>b", "c"),
        ("a</think>b</think>c<think>d", "a", "b</think>c<think>d"),
        ("never closed\n</thin", "never closed\n</thin", ""),
        ("only newlines after</think>\n\n", "only newlines after", ""),
        (" spaces  \n</think>\n  OK", " spaces  ", "  OK"),
    ],
)
def test_a_block_opened_by_the_prompt(
    style: ThinkStyle, text: str, reasoning: str, content: str
) -> None:
    """The initial state comes from the prompt; line breaks at the tags are framing; a later tag
    is text."""
    answer = answer_of(reasoning=ReasoningStart(style, open=True))
    assert joined(run(answer, [*tokens_of(text, style), END_TOKEN])) == (reasoning, content, "stop")


@pytest.mark.parametrize("style", OPEN_BLOCK)
@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>why\n</think>\n\n4", "why", "4"),
        ("\n <think>\nwhy</think>4", "why", "4"),
        ("<think></think>4", "", "4"),
        ("<thin", "", "<thin"),
        ("<thinking>4", "", "<thinking>4"),
        ("a<think>b</think>c", "", "a<think>b</think>c"),
        ("</think>4", "", "</think>4"),
        ("\n\n4", "", "\n\n4"),
        ("  ", "", "  "),
        ("", "", ""),
    ],
)
def test_a_closed_block_in_the_prompt(
    style: ThinkStyle, text: str, reasoning: str, content: str
) -> None:
    """Thinking off: an explicit block at the very start is still split, other tags are text."""
    answer = answer_of(reasoning=ReasoningStart(style, open=False))
    assert joined(run(answer, [*tokens_of(text, style), END_TOKEN])) == (reasoning, content, "stop")


def test_a_broken_character_before_a_tag_is_content() -> None:
    answer = answer_of(reasoning=ReasoningStart(BY_TOKEN, open=False))
    assert joined(run(answer, [*ids_of(b"\xf0"), OPEN, *ids_of(b"a")]))[:2] == (
        "",
        "\ufffd<think>a",
    )


@pytest.mark.parametrize("text", ["<think>a</think>b", "a</think>b"])
def test_other_templates_never_split(text: str) -> None:
    assert joined(run(answer_of(), BYTES.encode(text, special=False)))[:2] == ("", text)


def test_a_tag_spelled_out_is_text_where_tags_are_tokens() -> None:
    answer = answer_of(reasoning=ReasoningStart(BY_TOKEN, open=True))
    spelled = "the block ends with `</think>` and"
    steps = run(answer, [*ids_of(spelled.encode()), CLOSE, *ids_of(b"OK")])
    assert joined(steps)[:2] == (spelled, "OK")


def test_tags_may_be_control_tokens() -> None:
    """Their text is not in the decoded text; a later one is content all the same."""
    tokenizer = Tokenizer(byte_vocabulary(control=["<s>", "<think>", "</think>"]))
    style = ThinkStyle(257, 258)
    answer = answer_of(
        tokenizer, reasoning=ReasoningStart(style, open=True), end_tokens=frozenset()
    )
    steps = run(answer, [*ids_of(b"a\xf0"), 258, *ids_of(b"b\xf0"), 258, *ids_of(b"c"), 257])
    assert joined(steps)[:2] == ("a\ufffd", "b\ufffd</think>c<think>")


def test_the_closing_tag_closes_even_where_it_is_a_stop() -> None:
    """Stop strings are of the content: one that spells the tag ends the content, not the block."""
    ends = frozenset({CLOSE})
    answer = answer_of(reasoning=ReasoningStart(BY_TOKEN, open=True), end_tokens=ends)
    assert joined(run(answer, [*ids_of(b"a"), CLOSE, *ids_of(b"b"), CLOSE])) == ("a", "b", "stop")


def test_an_end_token_ends_the_reasoning_too() -> None:
    answer = answer_of(reasoning=ReasoningStart(BY_TEXT, open=True))
    assert joined(run(answer, [*ids_of(b"a</th"), END_TOKEN])) == ("a</th", "", "stop")


@pytest.mark.parametrize("style", OPEN_BLOCK)
def test_stops_apply_to_content_only(style: ThinkStyle) -> None:
    """And not to the line breaks that frame it: `b,c` with thinking on cuts no tag either."""
    answer = answer_of(stops=("b,c", "\n"), reasoning=ReasoningStart(style, open=True))
    text = "a\nb,c</think>\n\nd b,c e"
    assert joined(run(answer, tokens_of(text, style))) == ("a\nb,c", "d ", "stop")


def test_reasoning_tokens_are_those_of_an_open_block() -> None:
    answer = answer_of(reasoning=ReasoningStart(BY_TOKEN, open=True))
    phases, counts = [], []
    for token in [*ids_of(b"ab"), CLOSE, *ids_of(b"\nc")]:
        answer.push(SampledToken(token))
        phases.append(answer.phase)
        counts.append(answer.reasoning_tokens)
    assert counts == [1, 2, 2, 2, 2]
    assert phases == [Phase.REASONING] * 2 + [Phase.AFTER] * 2 + [Phase.CONTENT]
    assert answer.tokens == 5, "the closing tag counts as a completion token"


# ---- any cut gives the same

_FRAGMENTS = [
    *[
        "<think>",
        "</think>",
        "</thi",
        "<thin",
        "\n",
        "\n\n",
        " ",
        "é",
        "🦜",
        "你好",
        "a",
        "bc",
        "STOP",
    ],
    *["ST", "OP", "</", ">"],
]


def expected(text: str, style: ThinkStyle | None, opened: bool, stops: tuple[str, ...]) -> object:
    """The rules of this module's subject, on the text as a whole."""
    reasoning, content = "", text
    if style is not None:
        lead = text.lstrip()
        inside = text if opened else lead.removeprefix("<think>")
        if opened or lead.startswith("<think>"):
            thought, tag, rest = inside.partition("</think>")
            reasoning = thought.lstrip("\n")
            content = rest.lstrip("\n")
            if tag:
                reasoning = reasoning.rstrip("\n")
    ends = [
        (end, start)
        for end in range(len(content) + 1)
        for start in range(end)
        if content[start:end] in stops
    ]
    return reasoning, content[: min(ends)[1]] if ends else content, "stop"


@given(
    text=st.lists(st.sampled_from(_FRAGMENTS), max_size=14).map("".join),
    cuts=st.lists(st.integers(0, 80), max_size=20),
    style=st.sampled_from([None, BY_TEXT, BY_TOKEN]),
    opened=st.booleans(),
    stops=st.sampled_from([(), ("STOP",), ("P</think>", "\n\n"), ("你", "OPa", "\n")]),
    limited=st.booleans(),
)
def test_any_cut_into_tokens_gives_the_same_text(
    text: str,
    cuts: list[int],
    style: ThinkStyle | None,
    opened: bool,
    stops: tuple[str, ...],
    limited: bool,
) -> None:
    """Cuts in bytes: inside characters, tags and stops. Tags that are tokens stay whole."""
    data = text.encode()
    whole = []
    if style is BY_TOKEN:
        for tag in (b"<think>", b"</think>"):
            starts = [at for at in range(len(data)) if data.startswith(tag, at)]
            whole += [(at, at + len(tag)) for at in starts]
    borders = {0, len(data), *(min(cut, len(data)) for cut in cuts), *(e for w in whole for e in w)}
    kept = sorted(b for b in borders if not any(start < b < end for start, end in whole))
    tokens = [data[a:b] for a, b in pairwise(kept)]
    vocabulary = Pieces([*tokens, b"<think>", b"</think>"])
    tags = ThinkStyle(vocabulary.id(b"<think>"), vocabulary.id(b"</think>"))
    reasoning = None
    if style is not None:
        reasoning = ReasoningStart(tags if style is BY_TOKEN else BY_TEXT, opened)
    answer = answer_of(
        pieces_tokenizer(vocabulary),
        stops=stops,
        limit=len(tokens) if limited and tokens else 1000,
        reasoning=reasoning,
        end_tokens=frozenset({END}),
    )
    steps = run(answer, [*map(vocabulary.id, tokens), END])
    thought, content, reason = joined(steps)
    want = expected(text, style, opened, stops)
    if limited and tokens and reason == "length":
        reason = "stop"
    assert (thought, content, reason) == want
