"""The JSON grammars of one model, compiled once for each schema."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from pantheon.engine.constraint.grammar import JsonGrammar
from pantheon.engine.constraint.schema import UnsupportedSchema, mixes_bounds, object_schema
from pantheon.engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

_log = logging.getLogger(__name__)

_CACHED_GRAMMARS: Final = 32

_OPTIONS: Final[JsonCompileOptions] = {
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


class JsonGrammars:
    """Makes grammars for a model's vocabulary. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Prepare the vocabulary, which takes a second for every 300,000 tokens or so."""
        self._tokenizer = tokenizer
        self._trie = _vocabulary_trie(tokenizer)
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, tuple[LLMatcher, bool]] = OrderedDict()

    def start(self, schema: Mapping[str, Any] | None) -> JsonGrammar:
        """A grammar at its beginning.

        Any JSON object, and with a schema one that fits it. What the compiler does not know of
        JSON Schema is left out: the grammar is then `relaxed`, and a line in the log says why.

        Raises:
            UnsupportedSchema: no grammar can be made from the schema, or it is too costly.
        """
        text = object_schema(schema)
        with self._lock:
            compiled = self._compiled.get(text)
            if compiled is None:
                compiled = self._compile(text)
                self._compiled[text] = compiled
                if len(self._compiled) > _CACHED_GRAMMARS:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(text)
            matcher, relaxed = compiled
            matcher = matcher.deep_copy()
        grammar = JsonGrammar(matcher, self._tokenizer, relaxed=relaxed)
        if grammar.dead:
            raise UnsupportedSchema("no token of the model's vocabulary can begin such an answer")
        return grammar

    def _compile(self, schema: str) -> tuple[LLMatcher, bool]:
        """A matcher for a schema, and whether it lets through what the schema does not."""
        source = LLMatcher.grammar_from_json_schema(schema, overrides=_OPTIONS)
        if self._tokenizer.vocabulary.space_prefix:
            source = _after_space(source)
        matcher = LLMatcher(self._trie, source, log_level=0, limits=_LIMITS)
        if matcher.is_error():
            reason = matcher.get_error().partition("\n")[0]
            raise UnsupportedSchema(f"the JSON schema cannot be enforced: {reason:.200}")
        reasons = [str(warning) for warning in matcher.get_grammar_warnings()]
        if mixes_bounds(schema):
            reasons.append("an exclusive bound beside an inclusive one is taken as inclusive")
        for reason in reasons:
            _log.warning("a JSON schema is enforced in part: %.200s", reason)
        return matcher, bool(reasons)


def _after_space(source: str) -> str:
    """A grammar behind an optional space.

    Where a vocabulary puts a space before a text, an answer begins with it as a rule, and decoding
    takes it away: without it the model would have to write what it has never seen.
    """
    grammars = json.loads(source)
    inner = grammars["grammars"][0]["name"]
    grammars["grammars"].insert(0, {"name": "answer", "lark_grammar": f"start: / ?/ @{inner}"})
    return json.dumps(grammars)


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
        slices=LLTokenizer.json_slices(),
    )
