"""What an answer's next token may be: grammars of objects and calls, and reasoning budgets."""

from pantheon.engine.constraint.budget import ReasoningBudget
from pantheon.engine.constraint.compiler import GrammarCompiler
from pantheon.engine.constraint.constraint import Constraint
from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.grammars import JsonGrammars
from pantheon.engine.constraint.rule import ContentRule
from pantheon.engine.constraint.schema import UnsupportedSchema
from pantheon.engine.constraint.tool_grammars import ToolGrammars

__all__ = [
    "Constraint",
    "ContentRule",
    "Grammar",
    "GrammarCompiler",
    "JsonGrammars",
    "ReasoningBudget",
    "ToolGrammars",
    "UnsupportedSchema",
]
