"""Tokens spelled out: equal spelling means equal text and equal special tokens."""

from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.tokenizer import TokenBytes, Tokenizer, spelling
from tests.engine.tokenizer.vocabularies import byte_vocabulary

_SPECIAL = ["<end>", "<turn>"]
_TOKENIZER = Tokenizer(byte_vocabulary(control=_SPECIAL, user_defined=["<think>"]))
_BYTES: TokenBytes = _TOKENIZER.token_bytes
_SPELLING = spelling(_TOKENIZER.vocabulary, _BYTES)
_SPECIAL_IDS = {256, 257, 258}


def _meaning(tokens: list[int]) -> list[bytes | int]:
    """Text between special tokens, and those tokens."""
    parts: list[bytes | int] = []
    for token in tokens:
        if token in _SPECIAL_IDS:
            parts.append(token)
        elif parts and isinstance(parts[-1], bytes):
            parts[-1] += _BYTES.get(token)
        else:
            parts.append(_BYTES.get(token))
    return parts


def test_no_token_is_spelled_as_nothing() -> None:
    assert all(_SPELLING)
    assert len(_SPELLING) == len(_TOKENIZER.vocabulary.tokens)


_tokens = st.lists(
    st.one_of(
        st.integers(0, 258), st.sampled_from(_TOKENIZER.encode("<end>\x00byte", special=False))
    ),
    max_size=12,
)


@given(_tokens, _tokens)
def test_one_spelling_has_one_meaning(left: list[int], right: list[int]) -> None:
    same = b"".join(_SPELLING[t] for t in left) == b"".join(_SPELLING[t] for t in right)
    assert same == (_meaning(left) == _meaning(right))


def test_a_special_token_is_not_its_text_nor_a_byte_that_no_text_has() -> None:
    """Bytes of a broken character, a mark among them, stay apart from control tokens."""
    mark = next(token for token in range(256) if _BYTES.get(token) == b"\xff")
    texts = [
        next(t for t in range(256) if _BYTES.get(t) == bytes([b])) for b in b"\x00\x01\x00\x00"
    ]
    for special in (256, 257):
        written = _TOKENIZER.encode(_TOKENIZER.vocabulary.tokens[special], special=False)
        assert b"".join(_SPELLING[t] for t in written) != _SPELLING[special]
        assert b"".join(_SPELLING[t] for t in [mark, *texts]) != _SPELLING[special]
