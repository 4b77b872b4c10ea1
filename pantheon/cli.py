"""`pantheon serve | --backend | --version`."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gunicorn.app.base import BaseApplication

from pantheon import app, build_info
from pantheon.engine.config import ModelOptions
from pantheon.http.server_options import gunicorn_options
from pantheon.model_options import MODEL_OPTIONS, parse_model
from pantheon.settings import Settings, SettingsError, environment_with

_MODEL_FLAGS: Final = {
    "name": "served id of MODEL; its file name by default",
    "ctx_cap": "context cap of a session in tokens",
    "max_sessions": "named sessions that may hold KV at once",
    "max_concurrent": "requests decoded at once",
    "reasoning_budget": "reasoning tokens before the think block is closed",
    "dies": "device ordinals, separated by commas",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exits with status 2 on a bad flag or setting."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.backend:
        print(build_info.backend())
    elif chosen.command == "serve":
        try:
            settings = _settings(chosen)
        except (SettingsError, ValueError) as error:
            parser.exit(2, f"pantheon: {error}\n")
        if settings.process:
            try:
                ended = app.follow(settings)
            except app.CannotStart as error:
                parser.exit(1, f"{error}\n")
            print(
                f"pantheon: process {settings.process} ends: {ended}", file=sys.stderr, flush=True
            )
            # An end in order would wait for steps whose other half never comes, and JAX's client,
            # which misses the first process too, would end this one with a stack trace meanwhile.
            os._exit(0)
        else:
            _Server(settings).run()
    else:
        parser.print_help()


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn carries no types
    """gunicorn with our options and without a configuration file or arguments of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Set gunicorn's options."""
        settings = self._settings
        options = gunicorn_options(
            settings.host, settings.port, settings.threads, settings.drain_ms / 1000
        )
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> app.Application:
        """Build the application, in the worker."""
        return app.start(self._settings)


def _settings(chosen: argparse.Namespace) -> Settings:
    """The settings of the environment with the given flags in place of theirs."""
    overrides = {
        declaration.env: str(getattr(chosen, name))
        for name, declaration, _ in Settings.declarations()
        if declaration.flag is not None and getattr(chosen, name) is not None
    }
    settings = Settings.from_environment(environment_with(overrides))
    models = _models(chosen)
    return replace(settings, models=models) if models else settings


def _models(chosen: argparse.Namespace) -> tuple[ModelOptions, ...]:
    options: dict[str, Any] = {}
    for name in _MODEL_FLAGS:
        text = getattr(chosen, name)
        if text is not None:
            try:
                options[name] = MODEL_OPTIONS[name](text)
            except ValueError as error:
                raise ValueError(f"--{name.replace('_', '-')}: {error}") from None
    if chosen.quantize:
        options["quantize"] = True
    if chosen.path is None:
        if options:
            raise ValueError(
                f"{', '.join(options)}: expected a MODEL.gguf that these belong to, got none"
            )
        named: tuple[ModelOptions, ...] = ()
    else:
        named = (ModelOptions(path=Path(chosen.path), **options),)
    return named + tuple(parse_model(text) for text in chosen.model)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pantheon", description="An LLM server.")
    parser.add_argument("--version", action="version", version=_version())
    parser.add_argument(
        "--backend", action="store_true", help="print the accelerator backend of this build"
    )
    commands = parser.add_subparsers(dest="command", metavar="serve")
    serve = commands.add_parser(
        "serve",
        help="serve models over HTTP",
        epilog=_environment_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("path", nargs="?", metavar="MODEL.gguf", help="the model to serve")
    for name, declaration, default in Settings.declarations():
        if declaration.flag is not None:
            help_text = f"{declaration.help} ({default}; {declaration.env})"
            serve.add_argument(declaration.flag, dest=name, help=help_text)
    for name, help_text in _MODEL_FLAGS.items():
        serve.add_argument(f"--{name.replace('_', '-')}", dest=name, help=help_text)
    serve.add_argument("--quantize", action="store_true", help="quantise MODEL to INT8")
    serve.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="'path=...,name=...,ctx_cap=...'",
        help="one more model with its options; may be repeated",
    )
    return parser


def _version() -> str:
    return f"pantheon {build_info.version()} (build {build_info.build()}, {build_info.backend()})"


def _environment_help() -> str:
    lines = ["environment variables:"]
    for _, declaration, default in Settings.declarations():
        shown = default if declaration.shown_default is None else declaration.shown_default
        text = f"{declaration.help} [{int(shown) if isinstance(shown, bool) else shown}]"
        lines.append(f"  {declaration.env}")
        lines.extend(textwrap.wrap(text, 90, initial_indent="      ", subsequent_indent="      "))
    return "\n".join(lines)
