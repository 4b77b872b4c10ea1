"""Byte-level BPE on the `tokenizers` library, built from a vocabulary."""

from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from pantheon.engine.tokenizer.errors import TokenizerError
from pantheon.engine.tokenizer.pretokenizers import pretokenizer
from pantheon.engine.tokenizer.vocabulary import TokenType, Vocabulary

_ORDINARY = (TokenType.NORMAL, TokenType.USER_DEFINED)


def build_bpe(vocabulary: Vocabulary) -> LibraryTokenizer:
    """The merging part of a tokenizer: no special tokens, no normalization, no BOS.

    Control and unused tokens are left out, with every merge that needs one, so that merging cannot
    produce them. A byte that the vocabulary has no token for is dropped, as the tokenizers such
    vocabularies (SmolLM2's) come from do.

    Raises:
        TokenizerError: unknown pre-tokenizer, or a merge of pieces that are no tokens.
    """
    cut = pretokenizer(vocabulary.pre)
    ordinary = vocabulary.texts(*_ORDINARY)
    merges = [
        (left, right)
        for left, right in vocabulary.merges
        if left in ordinary and right in ordinary and left + right in ordinary
    ]
    if len(merges) < len(vocabulary.merges):
        _check_left_out(vocabulary)
    model = models.BPE(ordinary, merges, ignore_merges=cut.whole_words)
    library = LibraryTokenizer(model)
    splits: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in cut.patterns
    ]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    return library


def _check_left_out(vocabulary: Vocabulary) -> None:
    """Raise TokenizerError for a merge that has a piece outside the vocabulary."""
    known = set(vocabulary.tokens)
    for left, right in vocabulary.merges:
        for piece in (left, right, left + right):
            if piece not in known:
                raise TokenizerError(
                    f"tokenizer.ggml.merges joins {left!r} and {right!r}, "
                    f"but {piece!r} is no token of the vocabulary"
                )
