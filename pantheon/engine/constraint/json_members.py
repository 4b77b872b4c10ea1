"""Members of objects and items of arrays, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pantheon.engine.constraint.lark import LarkGrammar
from pantheon.engine.constraint.schema_graph import MAX_NESTING

DEPTH: Final = "[0:7]"
"""Bits of a rule's parameter that count the lists and objects around what it stands for."""


@dataclass(frozen=True, slots=True)
class Part:
    """What stands inside an object or array.

    Attributes:
        text: as an expansion.
        is_deep: whether rules in it count depth, in their parameters.
        need: how deep the value in it nests at least.
        is_required: whether an object must have it.
    """

    text: str
    is_deep: bool = False
    need: int = 0
    is_required: bool = False


NOTHING: Final = Part("")


def fits(need: int) -> str:
    """The condition that something which nests so deep may stand here."""
    return f" %if le({DEPTH}, {MAX_NESTING - need})"


def members(grammar: LarkGrammar, comma: str, listed: Sequence[Part], further: Part | None) -> Part:
    """Members in their order, of which some may be missing, then any number of further ones."""
    tail = again = NOTHING
    if further is not None:
        again = Part(f"({comma} {further.text})*", further.is_deep)
        tail = _maybe(grammar, _joined(f"{comma} {further.text}", further, again))
    first = next((at for at, part in enumerate(listed) if part.is_required), len(listed))
    starts: list[Part] = []
    if first == len(listed):
        starts.append(NOTHING)
        if further is not None:
            starts.append(_joined(further.text, further, again))
    for at in range(len(listed) - 1, -1, -1):
        part = listed[at]
        if at <= first:
            starts.append(_joined(part.text, part, tail))
        following = _joined(f"{comma} {part.text}", part, NOTHING)
        if not part.is_required:
            following = _maybe(grammar, following)
        tail = _joined(following.text, following, tail)
        if 0 < at <= first:
            # It is used by what begins before, with this missing or not.
            tail = _rule(grammar, [tail])
    return _rule(grammar, starts[::-1])


def items(
    grammar: LarkGrammar,
    comma: str,
    first: Sequence[Part],
    further: Part | None,
    *,
    least: int,
    most: int | None,
) -> Part | None:
    """One item at least, each of the first ones if those before it are there.

    Returns:
        None where there is no item.
    """
    listed = list(first if most is None else first[:most])
    if not listed and further is not None and most != 0:
        listed = [further]
    if not listed:
        return None
    tail, more = NOTHING, None if most is None else most - len(listed)
    if further is not None and more != 0 and len(listed) >= len(first):
        fewest = max(0, least - len(listed))
        tail = _repeated(grammar, f"{comma} {further.text}", further, max(fewest, 1), more)
        if not fewest:
            tail = _maybe(grammar, tail)
    for at in range(len(listed) - 1, 0, -1):
        tail = _joined(f"{comma} {listed[at].text}", listed[at], tail)
        if at >= least:
            tail = _maybe(grammar, tail)
    return _joined(listed[0].text, listed[0], tail)


def _repeated(grammar: LarkGrammar, text: str, part: Part, fewest: int, most: int | None) -> Part:
    """A text with a part in it, `fewest` times and up to `most`."""
    if not part.is_deep:
        return Part(f"({text}){{{fewest},{'' if most is None else most}}}")
    # The compiler does not count what has a parameter.
    one = _rule(grammar, [Part(text, True, part.need)]).text
    again = f"({one})*" if most is None else ""
    for _ in range(0 if most is None else most - fewest):
        again = f"({one} {again})?" if again else f"({one})?"
    return Part(" ".join([one] * fewest + [again]).rstrip(), True, part.need)


def _joined(text: str, part: Part, tail: Part) -> Part:
    """A text with a part in it, and what follows."""
    is_deep = part.is_deep or tail.is_deep
    return Part(f"{text} {tail.text}".rstrip(), is_deep, max(part.need, tail.need))


def _maybe(grammar: LarkGrammar, part: Part) -> Part:
    """A part or nothing; only nothing where it would nest too deep."""
    if part.is_deep and part.need:
        return _rule(grammar, [NOTHING, part])
    return Part(f"({part.text})?", part.is_deep)


def _rule(grammar: LarkGrammar, choices: Sequence[Part]) -> Part:
    """One of several parts."""
    is_deep = any(part.is_deep for part in choices)
    need = min(part.need for part in choices)
    # The compiler fails at a rule with a parameter that is one expansion without a condition.
    conditional = [part.is_deep and (part.need > 0 or len(choices) == 1) for part in choices]
    lines = [
        (part.text or '""') + (fits(part.need + 1) if is_conditional else "")
        for part, is_conditional in zip(choices, conditional, strict=True)
    ]
    name = grammar.shared("part", " | ".join(lines), parameter="::_" if is_deep else "")
    return Part(f"{name}::_" if is_deep else name, is_deep, need)
