"""Sampled answers found again where the vocabulary puts a space before each text."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pantheon.engine.cache import Continued, continue_history
from pantheon.engine.tokenizer import ChatTokenizer, Speller
from tests.engine.tokenizer.vocabularies import golden_metadata, golden_tokenizer

_PHI3 = golden_tokenizer("tiny-phi3")
_CHAT = ChatTokenizer(_PHI3, golden_metadata("tiny-phi3").string("tokenizer.chat_template"))
_SPELL = Speller(_PHI3.vocabulary, _PHI3.token_bytes)
_END = _PHI3.vocabulary.tokens.index("<|end|>")
_QUESTION = {"role": "user", "content": "12 and x?"}


@dataclass(frozen=True)
class _History:
    tokens: tuple[int, ...]
    answer_ends: tuple[int, ...]


def _ids(*pieces: str) -> list[int]:
    return [_PHI3.vocabulary.tokens.index(piece) for piece in pieces]


@pytest.mark.parametrize(
    "sampled",
    [
        _ids("\u2581", "H", "e", "l", "l", "o"),
        _ids("H", "e", "l", "l", "o"),
        _ids("\u2581", "\u2581", "H", "e", "l", "l", "o"),
        _ids("<0x0A>", "\u2581", "<0x48>", "e", "l", "l", "o"),
        _ids("1", "2"),
        _ids("\u2581", "<0xF0>", "<0x9F>", "<0xA6>", "<0x9C>"),
        _ids("<0xF0>", "<0x9F>", "<0xA6>", "<0x9C>"),
    ],
    ids=lambda ids: repr(_PHI3.decode(ids)),
)
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "cut off"])
def test_an_answer_is_found_by_its_text(sampled: list[int], ended: bool) -> None:
    """Whatever space it began with: the template and phi-3's tokens leave none there."""
    first = _CHAT.encode_chat([_QUESTION]).ids
    tokens = (*first, *sampled, *([_END] if ended else []))
    history = _History(tokens, tuple(range(len(first) + len(sampled), len(tokens) + 1)))
    answer = {"role": "assistant", "content": _PHI3.decode(sampled)}
    following = {"role": "user", "content": "7, and \n then?"}
    prompt = _CHAT.encode_chat([_QUESTION, answer, following]).ids
    rest = _CHAT.encode_chat([following]).ids
    expected = (*first, *sampled, _END, *rest)
    assert continue_history(prompt, [history], _SPELL) == Continued(expected, history.answer_ends)


def test_another_answer_is_not_found() -> None:
    first = _CHAT.encode_chat([_QUESTION]).ids
    history = _History((*first, *_ids("\u2581", "1", "2")), (len(first) + 3,))
    answer = {"role": "assistant", "content": "1 2"}
    prompt = _CHAT.encode_chat([_QUESTION, answer, _QUESTION]).ids
    assert continue_history(prompt, [history], _SPELL) == Continued(tuple(prompt))


def test_a_token_without_text_of_its_own_stays_in_the_prompt() -> None:
    """The space alone before a text, right behind where an answer ends."""
    bos, space, digit = _ids("<s>", "\u2581", "1")
    prompt = [bos, digit, bos, space, digit]
    history = _History((bos, space, digit, bos), (4,))
    found = continue_history(prompt, [history], _SPELL)
    assert found.tokens == (bos, space, digit, bos, space, digit)
