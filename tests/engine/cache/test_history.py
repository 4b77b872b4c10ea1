"""Finding sampled answers again in the next prompt, by text."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.cache import Continued, continue_history
from pantheon.engine.tokenizer import Tokenizer, spelling
from tests.engine.tokenizer.vocabularies import byte_vocabulary

_TOKENIZER = Tokenizer(byte_vocabulary(control=["<end>", "<turn>"], user_defined=["<think>"]))
_SPELLING = spelling(_TOKENIZER.vocabulary, _TOKENIZER.token_bytes)
_END, _TURN = 256, 257
# Pieces of several letters, as a vocabulary with merges has; the tokenizer cuts otherwise.
_PIECES = (b"a", b"b", b"ab", b"ba", b"abba", b"<end>", b"\xff")
_PIECE_SPELLING = (
    *(_SPELLING[t] for t in range(258)),
    *(p.replace(b"\xff", b"\xffbyte") for p in _PIECES),
)
_FIRST = 258


@dataclass(frozen=True)
class _History:
    tokens: tuple[int, ...]
    answer_ends: tuple[int, ...]


def _bytes(text: bytes) -> list[int]:
    """One token a byte, as a tokenizer that knows no pieces encodes it."""
    singles = {_SPELLING[token]: token for token in range(256)}
    return [singles[bytes([byte]).replace(b"\xff", b"\xffbyte")] for byte in text]


def _spelled(tokens: tuple[int, ...] | list[int]) -> bytes:
    return b"".join(_PIECE_SPELLING[token] for token in tokens)


_piece = st.integers(_FIRST, _FIRST + len(_PIECES) - 1)
_question = st.binary(min_size=1, max_size=6).map(lambda data: [_TURN, *_bytes(data), _TURN])


@st.composite
def _talks(draw: st.DrawFn) -> tuple[list[int], _History]:
    """A talk as it was sampled, and as a tokenizer would encode its text."""
    encoded: list[int] = []
    sampled: list[int] = []
    ends = []
    for _ in range(draw(st.integers(1, 3))):
        question = draw(_question)
        answer = draw(st.lists(_piece, min_size=1, max_size=6))
        text = b"".join(_PIECES[token - _FIRST] for token in answer)
        sampled += [*question, *answer, _END]
        encoded += [*question, *_bytes(text), _END]
        ends += [len(sampled) - 1, len(sampled)]
    return encoded, _History(tuple(sampled), tuple(ends))


@given(_talks(), _question)
def test_answers_that_were_sampled_stand_in_the_next_prompt(
    talk: tuple[list[int], _History], question: list[int]
) -> None:
    """The prompt says what it said, and its KV is found whole."""
    encoded, history = talk
    prompt = [*encoded, *question]
    found = continue_history(prompt, [history], lambda ids: [_PIECE_SPELLING[t] for t in ids])
    assert found.tokens == (*history.tokens, *question)
    assert found.answer_ends == history.answer_ends
    assert _spelled(found.tokens) == _spelled(prompt)


@given(_talks(), _talks(), st.integers(0, 40))
def test_whatever_is_found_the_prompt_spells_the_same(
    talk: tuple[list[int], _History], other: tuple[list[int], _History], cut: int
) -> None:
    prompt = [*talk[0][:cut], *other[0]]
    found = continue_history(
        prompt, [talk[1], other[1]], lambda ids: [_PIECE_SPELLING[t] for t in ids]
    )
    assert _spelled(found.tokens) == _spelled(prompt)
    assert all(0 < end <= len(found.tokens) for end in found.answer_ends)
    assert list(found.answer_ends) == sorted(found.answer_ends)


@given(_talks(), st.data())
def test_an_edited_answer_falls_back_to_the_ones_before_it(
    talk: tuple[list[int], _History], data: st.DataObject
) -> None:
    """Scenario 154: what was edited is encoded anew; what stands before it is not."""
    encoded, history = talk
    last_answer = len(encoded) - 2
    edited = [*encoded[:last_answer], _bytes(b"c")[0], *encoded[last_answer + 1 :]]
    found = continue_history(edited, [history], lambda ids: [_PIECE_SPELLING[t] for t in ids])
    assert _spelled(found.tokens) == _spelled(edited)
    assert found.answer_ends == history.answer_ends[:-2]
    before = history.answer_ends[-3] if len(history.answer_ends) > 2 else 0
    assert found.tokens[:before] == history.tokens[:before]


def test_an_answer_without_the_token_that_ended_it_is_found() -> None:
    """A stop token need not be what the template writes at the end of a turn."""
    a, ab = _bytes(b"a")[0], _FIRST + 2
    history = _History((_TURN, a, _TURN, ab, ab, _END), (5, 6))
    prompt = [_TURN, a, _TURN, *_bytes(b"abab"), _TURN, a]
    found = continue_history(prompt, [history], lambda ids: [_PIECE_SPELLING[t] for t in ids])
    assert found == Continued((_TURN, a, _TURN, ab, ab, _TURN, a), (5,))


def test_a_control_token_is_not_its_text() -> None:
    """A user who writes out `<end>` has not said the control token, nor the other way round."""
    spelled_out = _FIRST + 5
    for in_history, in_prompt in [([spelled_out], [_END]), ([_END], _bytes(b"<end>"))]:
        history = _History((_TURN, *in_history, _TURN), (1 + len(in_history), 2 + len(in_history)))
        prompt = [_TURN, *in_prompt, _TURN]
        assert continue_history(
            prompt, [history], lambda ids: [_PIECE_SPELLING[t] for t in ids]
        ) == Continued(tuple(prompt))


def test_a_prompt_that_cuts_a_token_in_two_is_left_alone() -> None:
    """The answer ends inside a token of the prompt: there is no place to go on from."""
    a, ab = _bytes(b"a")[0], _FIRST + 2
    history = _History((_TURN, a), (2,))
    prompt = [_TURN, ab]
    assert continue_history(
        prompt, [history], lambda ids: [_PIECE_SPELLING[t] for t in ids]
    ) == Continued((_TURN, ab))


def test_the_longest_history_wins() -> None:
    talk = (_TURN, *_bytes(b"a"), _FIRST, _FIRST + 1, _END)
    histories = [_History(talk[:3], (3,)), _History(talk, (4, 5)), _History((_TURN,), ())]
    prompt = [_TURN, *_bytes(b"aab"), _END, _TURN]
    assert continue_history(
        prompt, histories, lambda ids: [_PIECE_SPELLING[t] for t in ids]
    ).tokens == (*talk, _TURN)


def test_without_histories_the_prompt_is_as_it_was() -> None:
    assert continue_history([1, 2], [], lambda ids: [_PIECE_SPELLING[t] for t in ids]) == Continued(
        (1, 2)
    )
