"""The JSON grammars of one model, compiled once for each schema."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from llguidance import LLMatcher

from pantheon.engine.constraint.allowance import Allowance
from pantheon.engine.constraint.compiler import (
    JSON_OPTIONS,
    Compiled,
    GrammarCompiler,
    KeptGrammars,
)
from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.json_rules import JsonRules
from pantheon.engine.constraint.json_text import JsonText
from pantheon.engine.constraint.lark import LarkGrammar
from pantheon.engine.constraint.schema import UnsupportedSchema, mixes_bounds, object_schema
from pantheon.engine.constraint.schema_graph import SchemaGraph

_ANY_OBJECT: Final = {"type": "object"}

_log = logging.getLogger(__name__)


class JsonGrammars:
    """Makes grammars of JSON objects. Safe to use from several threads."""

    def __init__(self, compiler: GrammarCompiler) -> None:
        """Nothing is compiled yet."""
        self._compiler = compiler
        self._kept = KeptGrammars(compiler.tokenizer)

    def start(self, schema: Mapping[str, Any] | None) -> Grammar:
        """A grammar at its beginning.

        Any JSON object, and with a schema one that fits it. What the compiler does not know of
        JSON Schema is left out: the grammar is then `relaxed`, and a line in the log says why.

        Raises:
            UnsupportedSchema: no grammar can be made from the schema, or it is too costly.
        """
        if schema is None:
            return self._kept.start("", self._any_object)
        text = object_schema(schema)
        return self._kept.start(text, lambda: self._compile(text))

    def _any_object(self) -> Compiled:
        """A matcher for any object, as deep and with numbers as long as readers take."""
        grammar, graph = LarkGrammar(), SchemaGraph(_ANY_OBJECT, Allowance())
        rules = JsonRules(grammar, JsonText())
        start = rules.value(graph, graph.add((_ANY_OBJECT,))).outermost
        rules.write()
        optional_space = '" "? ' if self._compiler.tokenizer.vocabulary.space_prefix else ""
        grammar.add(f"start: {optional_space}{start}")
        return Compiled(self._compiler.compile(LLMatcher.grammar_from_lark(grammar.source)))

    def _compile(self, schema: str) -> Compiled:
        """A matcher for a schema, and whether it lets through what the schema does not."""
        source = LLMatcher.grammar_from_json_schema(schema, overrides=JSON_OPTIONS)
        if self._compiler.tokenizer.vocabulary.space_prefix:
            source = _after_space(source)
        matcher = self._compiler.compile(source)
        if matcher.is_error():
            reason = matcher.get_error().partition("\n")[0]
            raise UnsupportedSchema(f"the JSON schema cannot be enforced: {reason:.200}")
        reasons = [str(warning) for warning in matcher.get_grammar_warnings()]
        if mixes_bounds(schema):
            reasons.append("an exclusive bound beside an inclusive one is taken as inclusive")
        for reason in reasons:
            _log.warning("a JSON schema is enforced in part: %.200s", reason)
        return Compiled(matcher, bool(reasons))


def _after_space(source: str) -> str:
    """A grammar behind an optional space.

    Where a vocabulary puts a space before a text, an answer begins with it as a rule, and decoding
    takes it away: without it the model would have to write what it has never seen.
    """
    grammars = json.loads(source)
    inner = grammars["grammars"][0]["name"]
    grammars["grammars"].insert(0, {"name": "answer", "lark_grammar": f"start: / ?/ @{inner}"})
    return json.dumps(grammars)
