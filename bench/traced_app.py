"""`application` for gunicorn: the real server with its decode steps traced.

`GET /bench/trace?ROWS` answers what `StepTrace.report` tells of steps of so many rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from bench.step_trace import StepTrace, trace_steps
from pantheon.app import Application
from pantheon.engine.registry import build_engine
from pantheon.http.envelope import Environ, StartResponse
from pantheon.settings import Settings

TRACE_PATH: Final = "/bench/trace"


class _Traced(Application):
    trace: StepTrace

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != TRACE_PATH:
            return super().__call__(environ, start_response)
        body = json.dumps(self.trace.report(int(environ["QUERY_STRING"]))).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    settings = Settings.from_environment()
    trace = trace_steps()
    application = _Traced(build_engine(settings.engine_config()), settings)
    application.trace = trace
    return application
