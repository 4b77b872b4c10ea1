"""Compiling grammars for one vocabulary, within bounds, and keeping what was compiled."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.schema import UnsupportedSchema
from pantheon.engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

JSON_OPTIONS: Final[JsonCompileOptions] = {
    # Between two tokens of JSON a space, or a line break and its indentation: a model cannot fill
    # its limit with whitespace.
    "whitespace_pattern": r"(\x20|\x0A[\x20\x09]{0,16})?",
    "lenient": True,
    "coerce_one_of": True,
}

_LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_items_in_row=2_000,
    max_lexer_states=50_000,
    max_grammar_size=100_000,
    verbose_errors=False,
)
"""About 20 ms for a grammar's lexer and a few for a token, whatever the schema."""

_CACHED_GRAMMARS: Final = 32

_TEXT_SLICE: Final = "[^<]+"
"""Tokens that a text between tags takes as a whole, wherever in it they stand."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar before its first token.

    Attributes:
        matcher: never to be advanced, only copied.
        relaxed: whether the grammar lets through what its schema does not.
    """

    matcher: LLMatcher
    relaxed: bool = False


class GrammarCompiler:
    """Compiles for a model's vocabulary. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Prepare the vocabulary, which takes a second for every 150,000 tokens or so."""
        self.tokenizer = tokenizer
        self._trie = _vocabulary_trie(tokenizer)

    def compile(self, source: str) -> LLMatcher:
        """A matcher for a grammar in the library's formats; check its `is_error`."""
        return LLMatcher(self._trie, source, log_level=0, limits=_LIMITS)


class KeptGrammars:
    """Compiles each grammar once and keeps those used last. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, Future[Compiled]] = OrderedDict()

    def start(self, key: str, compile_it: Callable[[], Compiled]) -> Grammar:
        """A grammar at its beginning.

        Only who wants the same grammar waits for one that is being compiled.

        Args:
            key: what the grammar is made from.
            compile_it: called if no grammar is kept under the key; what it raises is passed on,
                and kept too if it is `UnsupportedSchema`.

        Raises:
            UnsupportedSchema: no token can begin such an answer.
        """
        with self._lock:
            compiled = self._compiled.get(key)
            is_new = compiled is None
            if compiled is None:
                compiled = self._compiled[key] = Future()
                if len(self._compiled) > _CACHED_GRAMMARS:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(key)
        if is_new:
            self._compile(key, compiled, compile_it)
        kept = compiled.result()
        with self._lock:
            matcher = kept.matcher.deep_copy()
        grammar = Grammar(matcher, self._tokenizer, relaxed=kept.relaxed)
        if grammar.dead:
            raise UnsupportedSchema("no token of the model's vocabulary can begin such an answer")
        return grammar

    def _compile(
        self, key: str, compiled: Future[Compiled], compile_it: Callable[[], Compiled]
    ) -> None:
        try:
            compiled.set_result(compile_it())
        except UnsupportedSchema as error:
            compiled.set_exception(error)
        except BaseException as error:
            # Those who wait are told; the next one tries again.
            with self._lock:
                if self._compiled.get(key) is compiled:
                    del self._compiled[key]
            compiled.set_exception(error)
            raise


class _Vocabulary:
    """A vocabulary as llguidance wants it."""

    def __init__(self, tokenizer: Tokenizer, end_tokens: list[int]) -> None:
        count = len(tokenizer.vocabulary)
        self.tokens = [tokenizer.token_bytes.get(token) for token in range(count)]
        if end_tokens == [count]:
            self.tokens.append(b"")
        self.eos_token_id = end_tokens[0]
        self.bos_token_id = tokenizer.vocabulary.bos
        self.special_token_ids = end_tokens
        self._encode = tokenizer.encode

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text.decode(), special=False, continued=True)


def _vocabulary_trie(tokenizer: Tokenizer) -> LLTokenizer:
    # The library needs an end token; where the vocabulary has none, one beyond it.
    end_tokens = sorted(tokenizer.vocabulary.end_ids) or [len(tokenizer.vocabulary)]
    vocabulary = _Vocabulary(tokenizer, end_tokens)
    return LLTokenizer(
        TokenizerWrapper(vocabulary),
        n_vocab=len(vocabulary.tokens),
        eos_token=end_tokens,
        slices=[*LLTokenizer.json_slices(), _TEXT_SLICE],
    )
