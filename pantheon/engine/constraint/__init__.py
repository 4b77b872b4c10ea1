"""What an answer's next token may be: JSON grammars, reasoning budgets, and both together."""

from pantheon.engine.constraint.budget import ReasoningBudget
from pantheon.engine.constraint.constraint import Constraint
from pantheon.engine.constraint.grammar import JsonGrammar
from pantheon.engine.constraint.grammars import JsonGrammars
from pantheon.engine.constraint.schema import UnsupportedSchema

__all__ = ["Constraint", "JsonGrammar", "JsonGrammars", "ReasoningBudget", "UnsupportedSchema"]
