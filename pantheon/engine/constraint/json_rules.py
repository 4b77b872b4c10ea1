"""Rules for JSON text of values, no deeper and with no longer numbers than readers take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pantheon.engine.constraint.json_members import DEPTH, Part, fits, items, members
from pantheon.engine.constraint.json_text import GAP, JsonText
from pantheon.engine.constraint.lark import LarkGrammar, escaped, expression
from pantheon.engine.constraint.number_keywords import integers_between
from pantheon.engine.constraint.number_text import integer_text, number_texts
from pantheon.engine.constraint.schema_graph import MAX_NESTING, Key, SchemaGraph
from pantheon.engine.constraint.shape import Schemas, Shape


@dataclass(frozen=True, slots=True)
class Symbol:
    """What stands for a value in a rule.

    Attributes:
        name: of a rule or terminal.
        is_deep: whether it counts depth, in its parameter.
    """

    name: str
    is_deep: bool

    @property
    def outermost(self) -> str:
        """The symbol where no list or object is around it."""
        return f"{self.name}::0x0" if self.is_deep else self.name

    @property
    def inside(self) -> str:
        """The symbol inside the list or object that a rule is for."""
        return f"{self.name}::incr({DEPTH})" if self.is_deep else self.name


class JsonRules:
    """Writes the rules of values into one grammar."""

    def __init__(self, grammar: LarkGrammar, text: JsonText) -> None:
        """Nothing is written yet."""
        self._grammar = grammar
        self._text = text
        self._known: dict[tuple[int, Key], Symbol] = {}
        self._pending: list[tuple[str, SchemaGraph, Sequence[Shape]]] = []

    def value(self, graph: SchemaGraph, key: Key) -> Symbol:
        """The symbol of a value that was added to a graph; `write` is to follow."""
        # Where nothing is said of a value, all graphs say the same.
        place = (id(graph) if key else 0, key)
        symbol = self._known.get(place)
        if symbol is None:
            symbol = self._known[place] = self.one_of(graph, graph.shapes(key))
        return symbol

    def one_of(self, graph: SchemaGraph, shapes: Sequence[Shape]) -> Symbol:
        """The symbol of a value of one of several shapes, of which one at least ends."""
        if any(shape.values is None and shape.types & {"object", "array"} for shape in shapes):
            symbol = Symbol(self._grammar.name("value"), True)
            self._pending.append((symbol.name, graph, shapes))
            return symbol
        scalars = self._scalars(shapes)
        if len(scalars) == 1:
            return Symbol(scalars[0], False)
        return Symbol(self._grammar.shared("scalar", " | ".join(scalars)), False)

    def write(self) -> None:
        """Add the rules of all values asked for, and of those in them."""
        while self._pending:
            name, graph, shapes = self._pending.pop()
            lines = self._scalars(shapes)
            for shape in shapes:
                if shape.values is None and "object" in shape.types:
                    lines += self._objects(graph, shape)
                if shape.values is None and "array" in shape.types:
                    lines += self._arrays(graph, shape)
            self._grammar.add(f"{name}::_: " + "\n  | ".join(lines))

    def _scalars(self, shapes: Sequence[Shape]) -> list[str]:
        """Symbols of the values that no rules are needed for."""
        texts: dict[str, None] = {}
        terms: list[str] = []
        multiples: dict[str, None] = {}
        for shape in shapes:
            texts.update(dict.fromkeys(self._texts(shape)))
            if shape.values is None and "number" in shape.types:
                conditions = number_texts(shape.low, shape.high, shape.digits)
                terms.append(" & ".join(map(expression, conditions)))
            whole = integers_between(shape.low, shape.high, shape.divisor)
            if _has_multiples(shape) and whole is not None:
                multiples[self._grammar.multiple(shape.divisor, *whole)] = None
        if texts:
            terms.append(expression("|".join(texts)))
        # One terminal for all: the parser's work grows with the number of expansions.
        return [*([self._grammar.choice(terms)] if terms else []), *multiples]

    def _texts(self, shape: Shape) -> list[str]:
        """Expressions for the values that are no lists, objects, fractions or multiples."""
        if shape.values is not None:
            return [self._text.value(value) for value in shape.values]
        texts = [self._text.string] if "string" in shape.types else []
        if "integer" in shape.types and not _has_multiples(shape):
            whole = integers_between(shape.low, shape.high, shape.divisor)
            texts += [] if whole is None else [integer_text(*whole)]
        texts += ["true|false"] if "boolean" in shape.types else []
        return texts + (["null"] if "null" in shape.types else [])

    def _objects(self, graph: SchemaGraph, shape: Shape) -> list[str]:
        need = graph.object_need(shape)
        if need > MAX_NESTING:
            return []
        listed = []
        for key, schemas in shape.properties.items():
            label = self._label(self._text.value(key))
            part = self._part(graph, label, schemas, is_required=key in shape.required)
            listed += [] if part is None else [part]
        further = None
        if shape.others is not None:
            further = self._part(graph, self._other_label(shape), shape.others)
        inside = members(self._grammar, self._grammar.terminal(f"{GAP},"), listed, further)
        close = self._grammar.terminal(GAP + escaped("}"))
        return [f'"{{" {inside.text} {close}{fits(int(need))}']

    def _arrays(self, graph: SchemaGraph, shape: Shape) -> list[str]:
        if graph.array_need(shape) > MAX_NESTING:
            return []
        opener, closer = escaped("["), escaped("]")
        lines = []
        if not shape.least:
            lines.append(self._grammar.terminal(f"{opener}{GAP}{closer}") + fits(1))
        first: list[Part] = []
        for schemas in shape.first:
            part = self._part(graph, "", schemas)
            if part is None:
                break
            first.append(part)
        further = None
        if shape.items is not None and len(first) == len(shape.first):
            further = self._part(graph, "", shape.items)
        comma = self._grammar.terminal(f"{GAP},{GAP}")
        inside = items(self._grammar, comma, first, further, least=shape.least, most=shape.most)
        if inside is not None:
            start, end = self._grammar.terminal(opener + GAP), self._grammar.terminal(GAP + closer)
            lines.append(f"{start} {inside.text} {end}{fits(inside.need + 1)}")
        return lines

    def _part(
        self, graph: SchemaGraph, label: str, schemas: Schemas, *, is_required: bool = False
    ) -> Part | None:
        """A value behind its label; None where no value fits."""
        key = graph.key(schemas)
        need = graph.need(key)
        if need >= MAX_NESTING:
            return None
        symbol = self.value(graph, key)
        return Part(f"{label} {symbol.inside}".strip(), symbol.is_deep, int(need), is_required)

    def _label(self, key: str) -> str:
        """The terminal of a key that an expression is for, with its colon."""
        gap, colon = self._grammar.terminal(GAP), self._grammar.terminal(f"{GAP}:{GAP}")
        return self._grammar.sequence(gap, expression(key), colon)

    def _other_label(self, shape: Shape) -> str:
        """The terminal of any key that is not listed."""
        label = self._label(self._text.plain_string)
        if not shape.properties:
            return label
        taken = "|".join(map(self._text.value, shape.properties))
        return self._grammar.difference(label, self._label(f"(?:{taken})"))


def _has_multiples(shape: Shape) -> bool:
    return shape.values is None and shape.divisor > 1 and "integer" in shape.types
