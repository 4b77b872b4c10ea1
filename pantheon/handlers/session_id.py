"""Which session and which model a request means (reference, request headers and session routes)."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from pantheon.engine import InvalidRequest


def first_session_id(*candidates: Any) -> str | None:
    """The first of `candidates` that is a non-empty string; anything else counts as absent."""
    for candidate in candidates:
        if isinstance(candidate, str) and candidate:
            return candidate
    return None


def required_session_id(given: Any, header: str | None) -> str:
    """The session id that a body or query gives, else that of the header.

    Raises:
        InvalidRequest: neither gives one.
    """
    session_id = first_session_id(given, header)
    if session_id is None:
        raise InvalidRequest(
            "session_id: expected a non-empty string, or one in the header X-Session-Id, got none"
        )
    return session_id


def model_name(name: str | UnsetType | None) -> str | None:
    """The name that selects a model; None, which an empty one counts as, is the default model."""
    return name if isinstance(name, str) and name else None
