"""Cross-origin headers: what a browser must see before it lets a page read an answer."""

from __future__ import annotations

import re
from typing import Any, Final

COMMON_HEADERS: Final = (("Access-Control-Allow-Origin", "*"),)
"""On every response (reference, first paragraph). `Connection: close`, the other one, is the
worker's: WSGI leaves hop-by-hop headers to the server."""

PREFLIGHT_BODY: Final = b"{}"
"""Body of every answer to OPTIONS (reference, `OPTIONS *`)."""

_HEADER_LIST: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1000}")
_DEFAULT_HEADERS: Final = "Authorization, Content-Type, X-Session-Id"
_MAX_AGE_SECONDS: Final = 86_400


def preflight_headers(environ: dict[str, Any]) -> list[tuple[str, str]]:
    """The headers of an answer to OPTIONS, allowing the request headers that were asked for.

    The reference is silent on these; without them browsers refuse to POST JSON.
    """
    asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    allowed = asked if _HEADER_LIST.fullmatch(asked) else _DEFAULT_HEADERS
    return [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(PREFLIGHT_BODY))),
        ("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"),
        ("Access-Control-Allow-Headers", allowed),
        ("Access-Control-Max-Age", str(_MAX_AGE_SECONDS)),
        ("Vary", "Access-Control-Request-Headers"),
    ]
