"""`application` for gunicorn over a stub model; everything above the device is the real thing.

BENCH_MODEL names the GGUF file of its tokenizer, BENCH_STEP_MS the milliseconds of a step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bench.stub_model import NAME, stub_model
from pantheon.app import Application
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.registry import Registry
from pantheon.engine.served_model import ServedModel
from pantheon.settings import Settings


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = Path(os.environ["BENCH_MODEL"])
    step_seconds = float(os.environ["BENCH_STEP_MS"]) / 1000

    def load(options: ModelOptions, config: EngineConfig, *checks: object) -> ServedModel:
        return stub_model(file, config, step_seconds)[0]

    settings = Settings.from_environment()
    config = EngineConfig((ModelOptions(path=file, name=NAME),), "cpu", "bench")
    registry = Registry(config, load)
    registry.load_all()
    return Application(registry, settings)
