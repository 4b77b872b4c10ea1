"""Grammars and budgets over SentencePiece vocabularies (reference, `response_format`)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pantheon.engine.answer import Answer
from pantheon.engine.constraint import Constraint, JsonGrammar, JsonGrammars, ReasoningBudget
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import ThinkStyle, Tokenizer
from tests.engine.tokenizer.vocabularies import golden_tokenizer

PHI3 = golden_tokenizer("phi-3")
GRAMMARS = JsonGrammars(PHI3)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def allowed(grammar: JsonGrammar, tokenizer: Tokenizer = PHI3) -> set[str]:
    bits = np.unpackbits(grammar.mask.view(np.uint8), bitorder="little")
    return {tokenizer.vocabulary.tokens[token] for token in np.flatnonzero(bits)}


def answer_of(tokenizer: Tokenizer, reasoning: ReasoningStart | None = None) -> Answer:
    return Answer(
        decoder=tokenizer.decoder(),
        token_bytes=tokenizer.token_bytes,
        stops=(),
        end_tokens=tokenizer.vocabulary.end_ids,
        limit=1000,
        reasoning=reasoning,
    )


def test_the_space_before_a_text_may_stand_before_the_object() -> None:
    """Models of such a vocabulary begin an answer with it; the byte of a brace is a token too."""
    assert allowed(GRAMMARS.start(SCHEMA)) == {
        *("{", "<0x7B>", '{"', "\u2581", "<0x20>", "\u2581{", '\u2581{"'),
    }


@pytest.mark.parametrize("continued", [False, True], ids=["with space", "without"])
@pytest.mark.parametrize("name", ["phi-3", "tiny-phi3"])
def test_an_object_in_the_vocabularys_own_tokens(name: str, continued: bool) -> None:
    """Byte fallback inside strings included; the decoded answer is the object alone."""
    tokenizer = golden_tokenizer(name)
    text = '{"a": "x é 🦜 \\n y", "b": [1, 22, 333]}'
    grammar = JsonGrammars(tokenizer).start(SCHEMA)
    ids = tokenizer.encode(text, special=False, continued=continued)
    for token in ids:
        assert not grammar.complete
        assert tokenizer.vocabulary.tokens[token] in allowed(grammar, tokenizer)
        grammar.accept(token)
    assert grammar.complete
    assert tokenizer.decode(ids) == text


def test_whatever_is_allowed_leads_to_an_object() -> None:
    random = np.random.default_rng(5)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "s": {"enum": ["é"]}},
        "required": ["n", "s"],
        "additionalProperties": False,
    }
    for _ in range(20):
        grammar = GRAMMARS.start(schema)
        answer = answer_of(PHI3)
        constraint = Constraint.of(answer, grammar=grammar, budget=None)
        assert constraint is not None
        text = ""
        while not constraint.complete:
            assert not constraint.dead
            mask = constraint.mask()
            assert mask is not None
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
            token = int(random.choice(np.flatnonzero(bits)))
            step = answer.push(SampledToken(token, -1.0))
            text += "".join(delta.text for delta in step.deltas)
            constraint.accept(token)
        value = json.loads(text)
        assert set(value) == {"n", "s"}
        assert not text.startswith("  ")


def test_line_breaks_before_an_object_are_byte_tokens() -> None:
    mask = GRAMMARS.start(None).line_breaks(2)
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    assert [PHI3.vocabulary.tokens[token] for token in np.flatnonzero(bits)] == ["<0x0A>"]


def test_a_forced_closing_tag_has_no_space_before_it() -> None:
    answer = answer_of(PHI3, ReasoningStart(ThinkStyle(None, None), open=True))
    budget = ReasoningBudget(ThinkStyle(None, None), PHI3, 1)
    answer.push(SampledToken(PHI3.vocabulary.tokens.index("\u2581Hi"), -1.0))
    text = ""
    while answer.in_reasoning:
        mask = budget.mask(answer)
        assert mask is not None
        (token,) = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        text += PHI3.token_bytes.get(int(token)).decode()
        answer.push(SampledToken(int(token), -1.0))
    assert text == "</think>"
