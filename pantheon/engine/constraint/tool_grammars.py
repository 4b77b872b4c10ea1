"""The grammars of tool calls (reference, Tool calling), compiled once for each set of tools."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from llguidance import LLMatcher

from pantheon.engine.answer import Answer
from pantheon.engine.config import ToolGrammar
from pantheon.engine.constraint.allowance import Allowance
from pantheon.engine.constraint.begun_calls import BegunCalls
from pantheon.engine.constraint.compelled_call import CompelledCall
from pantheon.engine.constraint.compiler import Compiled, GrammarCompiler, KeptGrammars
from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.json_call_grammar import json_call
from pantheon.engine.constraint.lark import LarkGrammar
from pantheon.engine.constraint.openings import JsonOpenings, Openings, QwenOpenings
from pantheon.engine.constraint.qwen_grammar import qwen_call, qwen_writes
from pantheon.engine.constraint.rule import ContentRule
from pantheon.engine.constraint.schema import UnsupportedSchema
from pantheon.engine.constraint.shape import is_text
from pantheon.engine.constraint.tool_arguments import Strictness, ToolArguments, tool_arguments
from pantheon.engine.requests import ToolUse
from pantheon.engine.tokenizer import ThinkStyle
from pantheon.engine.tools import Dialect, Tool

_log = logging.getLogger(__name__)

MAX_SOURCE_CHARS: Final = 1 << 20
_LOGGED: Final = 4
"""Places named in a line of the log."""


class _Call(Protocol):
    """Writes the rules of a dialect's calls; see `qwen_call`."""

    def __call__(
        self, grammar: LarkGrammar, tools: Mapping[str, ToolArguments], *, begun: bool
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class _Modelled:
    """What is known of a dialect that a grammar models.

    Attributes:
        call: writes the grammar.
        writes: whether an argument of some name can be written.
        openings: finds where a call begins in the content of a free answer.
    """

    call: _Call
    writes: Callable[[str], bool]
    openings: Callable[[frozenset[str]], Openings]


_MODELLED: Final[Mapping[str, _Modelled]] = {
    "qwen3-coder-xml": _Modelled(qwen_call, qwen_writes, QwenOpenings),
    "json": _Modelled(json_call, lambda key: True, JsonOpenings),
}


class ToolGrammars:
    """Makes what holds an answer to calls, for a model. Safe to use from several threads."""

    def __init__(self, compiler: GrammarCompiler, dialect: Dialect) -> None:
        """Nothing is compiled yet."""
        self._compiler = compiler
        self._dialect = dialect
        self._modelled = _MODELLED.get(dialect.name)
        self._kept = KeptGrammars(compiler.tokenizer)

    @property
    def models_the_dialect(self) -> bool:
        """Whether a grammar can compel a call; without one only end tokens are held back."""
        return self._modelled is not None

    def start(
        self,
        use: ToolUse,
        answer: Answer,
        *,
        mode: ToolGrammar,
        end_tokens: frozenset[int],
        think: ThinkStyle | None,
    ) -> ContentRule | None:
        """What an answer with tools may contain; None where anything may come.

        Args:
            use: the tools on offer and what must be called of them.
            answer: has its `calls`, which say whether it must be a call.
            mode: which answers are constrained.
            end_tokens: tokens that end the answer.
            think: how the model's template writes think blocks.

        Raises:
            UnsupportedSchema: no grammar can be made for the tools, or none has the given name.
        """
        calls = answer.calls
        if calls is None or mode is ToolGrammar.NEVER:
            return None
        if calls.compelled:
            offered = [tool for tool in use.tools if use.name is None or tool.name == use.name]
            if not offered:
                raise UnsupportedSchema(f"no tool on offer has the name {use.name!r:.100}")
            grammar = None
            if self._modelled is not None:
                grammar = self._grammar(self._modelled, offered, begun=False)
            return CompelledCall(
                grammar,
                answer,
                calls,
                self._compiler.tokenizer,
                end_tokens=end_tokens,
                think=think,
            )
        if mode is not ToolGrammar.ALWAYS or self._modelled is None:
            return None
        # Compiled here, and not where a call begins: other answers would wait for it.
        grammar = self._grammar(self._modelled, use.tools, begun=True)
        names = frozenset(tool.name for tool in use.tools)
        return BegunCalls(grammar.copy, self._modelled.openings(names), answer)

    def _grammar(self, modelled: _Modelled, tools: Sequence[Tool], *, begun: bool) -> Grammar:
        offered = [tool for tool in tools if is_text(tool.name)]
        if not offered:
            raise UnsupportedSchema("no tool on offer has a name that can be written")
        given = json.dumps([begun, *([tool.name, tool.parameters] for tool in offered)])
        key = hashlib.sha256(given.encode()).hexdigest()
        return self._kept.start(key, lambda: self._compile(modelled, offered, begun=begun))

    def _compile(self, modelled: _Modelled, tools: Sequence[Tool], *, begun: bool) -> Compiled:
        """A grammar that holds to as much of the schemas as can be compiled."""
        reason = ""
        for strictness in sorted(Strictness, reverse=True):
            allowance = Allowance()
            source = self._source(modelled, tools, strictness, allowance, begun=begun)
            reason = f"they make a grammar of {len(source)} characters"
            if len(source) <= MAX_SOURCE_CHARS:
                matcher = self._compiler.compile(LLMatcher.grammar_from_lark(source))
                if not matcher.is_error():
                    _log_what_is_left_out(allowance)
                    return Compiled(matcher)
                reason = matcher.get_error().partition("\n")[0]
            _log.warning("the schemas of %d tools are relaxed: %.200s", len(tools), reason)
        raise UnsupportedSchema(f"no grammar can be made for the tools: {reason:.200}")

    def _source(
        self,
        modelled: _Modelled,
        tools: Sequence[Tool],
        strictness: Strictness,
        allowance: Allowance,
        *,
        begun: bool,
    ) -> str:
        """The grammar's text."""
        grammar = LarkGrammar()
        arguments = {
            tool.name: tool_arguments(tool, strictness, allowance, modelled.writes)
            for tool in tools
        }
        start = modelled.call(grammar, arguments, begun=begun)
        if self._compiler.tokenizer.vocabulary.space_prefix and not begun:
            # As before a JSON object: see `JsonGrammars`.
            start = f'" "? ({start})'
        grammar.add(f"start: {start}")
        return grammar.source


def _log_what_is_left_out(allowance: Allowance) -> None:
    """One line for what is held to types alone, and one for keywords."""
    if relaxed := allowance.relaxed:
        places = [
            f"{tool!r:.100}{f' (argument {argument!r:.100})' if argument else ''}: {reason}"
            for (tool, argument), reason in itertools.islice(relaxed.items(), _LOGGED)
        ]
        _log.warning(
            "schemas of tools are relaxed to types in %d places: %s",
            len(relaxed),
            "; ".join([*places, *(["..."] if len(relaxed) > _LOGGED else [])]),
        )
    if lost := ", ".join(sorted(allowance.lost)):
        _log.info("schemas of tools are enforced in part: %.500s", lost)
