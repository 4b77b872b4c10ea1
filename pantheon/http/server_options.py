"""The one place that says how gunicorn runs the server, whoever starts it."""

from __future__ import annotations

import math
from typing import Any, Final

_SPARE_CONNECTIONS: Final = 256
_STOP_MARGIN_SECONDS: Final = 10


def gunicorn_options(host: str, port: int, threads: int, drain_timeout: float) -> dict[str, Any]:
    """gunicorn's settings by name.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        threads: requests served at once; as many connections again may be arriving or closing.
        drain_timeout: most seconds that a stopping server waits for running answers.
    """
    return {
        "bind": [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"],
        "workers": 1,
        "worker_class": "pantheon.http.worker.Worker",
        "threads": threads,
        "worker_connections": threads + _SPARE_CONNECTIONS,
        "keepalive": 0,
        # A generation takes as long as it takes, and a load too: nothing is killed for slowness.
        "timeout": 0,
        # The worker keeps its own time; this is when gunicorn kills one that does not.
        "graceful_timeout": math.ceil(drain_timeout) + _STOP_MARGIN_SECONDS,
        "preload_app": False,
        "limit_request_line": 8190,
        # Nobody may rewrite paths or schemes by headers; the server does not sit behind a prefix.
        "forwarded_allow_ips": "",
        "control_socket_disable": True,
        "proc_name": "pantheon",
    }
