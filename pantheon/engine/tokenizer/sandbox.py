"""The jinja2 environment of chat templates: sandboxed, set up as transformers does, bounded.

Settings, tags and filters follow transformers' chat template documentation: blocks trimmed, loop
controls, the `generation` tag, `tojson` without HTML escapes. Beyond jinja2's sandbox, every loop
turn, call, filter, output and growing operator is charged to the rendering's budget.
"""

import json
from collections.abc import Callable, Iterable
from functools import wraps
from types import BuiltinMethodType, MethodType
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from pantheon.engine.tokenizer.budget import current_budget
from pantheon.engine.tokenizer.errors import TemplateError
from pantheon.engine.tokenizer.growth import (
    check_format,
    check_indent,
    check_join,
    check_operator,
    check_replace,
    check_widths,
)

MAX_INDENTED_DEPTH = 64

_DROPPED_FILTERS = (
    "batch",
    "center",
    "filesizeformat",
    "pprint",
    "random",
    "round",
    "slice",
    "striptags",
    "urlize",
    "wordwrap",
    "xmlattr",
)
"""Filters that pad, decorate or compute; no chat template needs them, and each has a way of its own
to use up time or memory."""
_REFUSED_METHODS = frozenset({"encode", "to_bytes", "translate"})
"""Methods of strings and integers that make bytes, which are not measured, or grow by a table."""
_WIDTH_METHODS = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment. Use it inside `fresh_budget()` only."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=_finalize,
            extensions=[loopcontrols, _GenerationTag, _Accounting],
        )
        for name in _DROPPED_FILTERS:
            del self.filters[name]
        self.filters["tojson"] = _tojson
        self.filters = {name: _accounted(name, function) for name, function in self.filters.items()}
        del self.globals["lipsum"]
        self.globals["namespace"] = _OpaqueNamespace

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        accounted = _AccountingTransformer().visit(tree)
        assert isinstance(accounted, nodes.Template)
        return accounted

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use an attribute."""
        return attr not in _REFUSED_METHODS and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The sandboxed form of `str.format` and `str.format_map`, checked for growth."""
        formatter = super().wrap_str_format(value)
        if formatter is None:
            return None

        @wraps(formatter)
        def checked(*args: Any, **kwargs: Any) -> str:
            check_format(current_budget(), value.__self__, (*args, *kwargs.values()))
            return formatter(*args, **kwargs)

        return checked

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call from a template; names as in the base class, so that keyword arguments of any
        name can be passed on."""
        if isinstance(__obj, MethodType) and isinstance(__obj.__self__, _Accounting):
            # Compiled loops add keyword arguments that only functions with a context take.
            return __obj(*args)
        current_budget().spend(0)
        if isinstance(__obj, (BuiltinMethodType, MethodType)) and isinstance(__obj.__self__, str):
            if __obj.__name__ == "join":
                args = tuple(map(_materialized, args))
            _check_text_method(__obj.__name__, __obj.__self__, (*args, *kwargs.values()))
        result = super().call(__context, __obj, *args, **kwargs)
        current_budget().account(result)
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator that can make something larger."""
        check_operator(current_budget(), operator, left, right)
        result = super().call_binop(context, operator, left, right)
        current_budget().account(result)
        return result


class _OpaqueNamespace(Namespace):
    """A namespace that does not write out what it holds, which may hold itself."""

    def __repr__(self) -> str:
        return "<namespace>"


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's part for training; here its body is just output."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Accounting(Extension):
    """Where compiled templates report to the budget."""

    def spend(self, chars: int) -> str:
        current_budget().spend(chars)
        return ""

    def made(self, value: Any) -> Any:
        current_budget().account(value)
        return value

    def concat(self, *values: Any) -> str:
        budget = current_budget()
        budget.check_size(sum(budget.size(value) for value in values))
        text = "".join(map(str, values))
        budget.account(text)
        return text


class _AccountingTransformer(NodeTransformer):
    """Adds reports to a parsed template: at loop turns and macro bodies, for literal output, and
    around list, tuple and mapping displays and `~`."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        return self._charge_body(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._charge_body(node)

    def visit_Output(self, node: nodes.Output) -> nodes.Node | list[nodes.Node]:
        self.generic_visit(node)
        literal = sum(len(item.data) for item in node.nodes if isinstance(item, nodes.TemplateData))
        return [_charge(literal, node.lineno), node] if literal else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _report("concat", node.nodes, node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _report("made", [node], node.lineno)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _report("made", [node], node.lineno)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _report("made", [node], node.lineno) if node.ctx == "load" else node

    def _charge_body(self, node: nodes.For | nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _charge(0, node.lineno))
        return node


def _report(method: str, arguments: list[nodes.Expr], line: int) -> nodes.Call:
    target = nodes.ExtensionAttribute(_Accounting.identifier, method, lineno=line)
    return nodes.Call(target, arguments, [], None, None, lineno=line)


def _charge(chars: int, line: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(_report("spend", [nodes.Const(chars, lineno=line)], line), lineno=line)


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Account for an output expression. Takes the context so that constants are not folded."""
    budget = current_budget()
    size = budget.size(value)
    budget.check_size(size)
    budget.spend(size)
    return value


def _accounted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that accounts for what it takes and makes."""

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        budget = current_budget()
        budget.spend(0)
        if name == "join":
            # Position 0 holds the evaluation context, here and for replace.
            args = (args[0], _materialized(args[1]), *args[2:])
            check_join(budget, args[1], (*args[2:], *kwargs.values()))
        elif name == "replace":
            check_replace(budget, args[1], (*args[2:], *kwargs.values()))
        elif name == "format":
            check_format(budget, args[0], (*args[1:], *kwargs.values()))
        elif name == "indent":
            check_indent(budget, args[0], (*args[1:], *kwargs.values()))
        result = function(*args, **kwargs)
        budget.account(result)
        return result

    return checked


def _materialized(values: Any) -> Any:
    """An iterator read into a list, so that it can be measured; other values as they are."""
    if isinstance(values, (str, list, tuple, dict)) or not isinstance(values, Iterable):
        return values
    items = list(values)
    current_budget().account(items)
    return items


def _check_text_method(name: str, text: str, arguments: tuple[Any, ...]) -> None:
    """Refuse a call of a string method whose result would be too large."""
    budget = current_budget()
    if name in _WIDTH_METHODS:
        check_widths(arguments)
    elif name == "join":
        check_join(budget, arguments[0] if arguments else (), (text,))
    elif name == "replace":
        check_replace(budget, text, arguments)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON text as transformers' templates expect it: no HTML escapes, characters as they are."""
    budget = current_budget()
    budget.check_size(budget.size(value))
    if indent is not None and (indent > 16 or _deeper_than(value, MAX_INDENTED_DEPTH)):
        raise TemplateError(
            "chat template writes indented JSON with more than 16 spaces a level or "
            f"{MAX_INDENTED_DEPTH} levels"
        )
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _deeper_than(value: Any, depth: int) -> bool:
    if not isinstance(value, (dict, list, tuple)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_deeper_than(item, depth - 1) for item in items)
