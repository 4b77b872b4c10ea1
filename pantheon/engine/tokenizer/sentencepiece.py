"""SentencePiece's BPE with byte fallback on the `tokenizers` library, built from a vocabulary.

Such a vocabulary has a score for each token instead of merges: of all neighbours that together are
a token, those with the highest score are joined first. Characters that are in no token are written
as the tokens of their bytes.
"""

import re
from collections.abc import Iterable

from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from pantheon.engine.tokenizer.errors import TokenizerError
from pantheon.engine.tokenizer.vocabulary import MAX_MERGES, TokenType, Vocabulary

SPACE = "\u2581"
"""What SentencePiece writes for a space."""

MAX_PIECE_CHARS = 256
"""Characters of a token that merging can make; trained ones have 16 or so."""

_BLANKS = " \t\n\v\f\r"
_INNER_SPACE = re.compile(f"[^{SPACE}]{SPACE}")
_WORDS = f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+"


def build_sentencepiece(vocabulary: Vocabulary) -> LibraryTokenizer:
    """The merging part of a tokenizer: no special tokens, no BOS, spaces as U+2581.

    Control, unused and byte tokens are not made by merging, so that no text can spell one. A
    character that is in no token becomes the tokens of its bytes; where the vocabulary lacks one
    of those it becomes the unknown token, and is dropped where there is none.

    Merges are ranked by their token's score, equal scores by its id, while SentencePiece takes
    equal scores from left to right. That makes a difference only for tokens of equal score that
    compete for a character; in trained vocabularies only runs of spaces have equal scores.

    Raises:
        TokenizerError: a token is overlong, or there are too many merges.
    """
    normal = vocabulary.texts(TokenType.NORMAL)
    known = normal | vocabulary.texts(TokenType.BYTE)
    unknown = None if vocabulary.unknown is None else vocabulary.tokens[vocabulary.unknown]
    if unknown is not None and vocabulary.unknown is not None:
        known[unknown] = vocabulary.unknown
    model = models.BPE(known, _merges(vocabulary, normal), unk_token=unknown, byte_fallback=True)
    library = LibraryTokenizer(model)
    if not any(_INNER_SPACE.search(text) for text in normal):
        # No token goes on across the beginning of a space, so words can be merged one by one.
        library.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    return library


def place_spaces(
    pieces: Iterable[tuple[str, bool]],
    *,
    prefix: bool,
    strip_after: frozenset[str],
    continued: bool,
) -> list[tuple[str, bool]]:
    """Pieces of a text with spaces as SentencePiece wants them before merging.

    Args:
        pieces: (text, whether it is a special token) in order.
        prefix: Put a space before a text at the start and after a special token.
        strip_after: Special tokens after which leading whitespace is dropped.
        continued: What comes before is text, so that the start is no place for a space.
    """
    placed: list[tuple[str, bool]] = []
    begins, strips = not continued, False
    for text, special in pieces:
        if special:
            placed.append((text, True))
            begins, strips = True, text in strip_after
            continue
        if strips:
            text = text.lstrip(_BLANKS)
        if text:
            spaced = f" {text}" if prefix and begins else text
            placed.append((spaced.replace(" ", SPACE), False))
            begins = strips = False
    return placed


def _merges(vocabulary: Vocabulary, normal: dict[str, int]) -> list[tuple[str, str]]:
    """Pairs of tokens that make a token, strongest first."""
    merges: list[tuple[str, str]] = []
    for text in sorted(normal, key=lambda text: (-vocabulary.scores[normal[text]], normal[text])):
        if len(text) > MAX_PIECE_CHARS:
            raise TokenizerError(
                f"tokenizer.ggml.tokens must hold texts of at most {MAX_PIECE_CHARS} characters; "
                f"token {normal[text]} has {len(text)}"
            )
        merges += [
            (text[:cut], text[cut:])
            for cut in range(1, len(text))
            if text[:cut] in normal and text[cut:] in normal
        ]
        if len(merges) > MAX_MERGES:
            raise TokenizerError(
                f"the tokens can be merged from each other in more than {MAX_MERGES} ways"
            )
    return merges
