"""Pre-tokenizers by the name in `tokenizer.ggml.pre`: how text is cut before byte-pair merging.

The expressions are those of the model families' own published tokenizers. "default" stands for a
file without a name: what llama.cpp does with one.
"""

from dataclasses import dataclass

from pantheon.engine.tokenizer.errors import TokenizerError

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_GPT2_WITHOUT_BLANKS = _GPT2.removesuffix(r"|\s+")
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _llama3(digits: str, letters: str = r"\p{L}", symbols: str = r"[^\s\p{L}\p{N}]") -> str:
    return (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{letters}+|{digits}"
        rf"| ?{symbols}+[\r\n]*|{_SPACES}"
    )


_TEKKEN_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_TEKKEN_UPPER}*{_TEKKEN_LOWER}+"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_TEKKEN_UPPER}+{_TEKKEN_LOWER}*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How text is cut into words before merging.

    Attributes:
        patterns: Expressions (Oniguruma syntax) applied one after the other; each match and each
            stretch between matches is a piece for the next.
        whole_words: A word that is itself a token is taken whole, without merging.
    """

    patterns: tuple[str, ...]
    whole_words: bool


_BY_NAME: dict[str, PreTokenizer] = {
    "default": PreTokenizer(
        (r"[\p{P}$+<=>^~|]+", _GPT2_WITHOUT_BLANKS, r"\p{N}+", r"[0-9]{3}"), whole_words=False
    ),
    "gpt-2": PreTokenizer((_GPT2,), whole_words=False),
    "llama-bpe": PreTokenizer((_llama3(r"\p{N}{1,3}"),), whole_words=True),
    "minicpm5": PreTokenizer((r"\p{N}{1,3}", _llama3(r"\p{N}+")), whole_words=True),
    "qwen2": PreTokenizer((_llama3(r"\p{N}"),), whole_words=False),
    "qwen35": PreTokenizer(
        (_llama3(r"\p{N}", letters=r"[\p{L}\p{M}]", symbols=r"[^\s\p{L}\p{M}\p{N}]"),),
        whole_words=False,
    ),
    "smollm": PreTokenizer((r"\p{N}", _GPT2), whole_words=False),
    "tekken": PreTokenizer((_TEKKEN,), whole_words=True),
}


def pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of a name.

    Raises:
        TokenizerError: the name is not known.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise TokenizerError(
            f"tokenizer.ggml.pre is {name!r}; known pre-tokenizers are {', '.join(_BY_NAME)}"
        )
    return found
