"""Whether a recursive schema has values that end.

A grammar cannot tell: it would have a model write the beginning of a value for ever.
"""

from __future__ import annotations

from typing import Any, Final

_ROUNDS: Final = 64


def has_values(schema: dict[str, Any] | bool, definitions: dict[str, Any]) -> bool:
    """Whether a finite value fits, as far as nesting decides it.

    Args:
        schema: reduced; see `value_schema`.
        definitions: reduced schemas that it and each other refer to as `#/$defs/NAME`.
    """
    ending: set[str] = set()
    for _ in range(_ROUNDS):
        known = len(ending)
        # Most refer to what comes behind them.
        for name in reversed(definitions):
            if name not in ending and _ends(definitions[name], ending):
                ending.add(name)
        if len(ending) == known:
            break
    return _ends(schema, ending)


def _ends(schema: dict[str, Any] | bool, ending: set[str]) -> bool:
    """Whether a value ends if those of the definitions in `ending` do."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and schema["$ref"].removeprefix("#/$defs/") not in ending:
        return False
    if not all(_ends(part, ending) for part in schema.get("allOf", ())):
        return False
    for union in ("anyOf", "oneOf"):
        if union in schema and not any(_ends(part, ending) for part in schema[union]):
            return False
    if "enum" in schema:
        return True
    kinds = schema.get("type")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds or ("string",))
    if not kinds <= {"object", "array"}:
        return True
    properties, items = schema.get("properties", {}), schema.get("items", True)
    if "object" in kinds:
        others = schema.get("additionalProperties", True)
        members = [properties.get(key, others) for key in schema.get("required", ())]
        if all(_ends(member, ending) for member in members):
            return True
    if "array" in kinds:
        least = schema.get("minItems", 0)
        first = list(schema.get("prefixItems", ()))
        parts: list[Any] = [*first, *[items] * max(0, least - len(first))][:least]
        return all(_ends(part, ending) for part in parts)
    return False
