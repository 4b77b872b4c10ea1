"""Where a session id comes from (reference, request headers and `session_id`)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pantheon.engine.testing import Script, ScriptedEngine, scripted_model
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.parsing import to_model
from pantheon.handlers.chat_request import read_chat_request
from tests.handlers.calls import create, engine_that, stream

SOURCES = ("session_id", "prompt_cache_key", "promptCacheKey", "header")


def session_ids(header: str | None = None, **fields: Any) -> list[str | None]:
    """The session of each choice that a chat asks for."""
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    chat = read_chat_request(to_model(body, ChatCompletionParams), False, False, header)
    return [completion.session_id for completion in chat.completions]


@pytest.mark.parametrize(
    "given", [s for n in range(5) for s in itertools.combinations(SOURCES, n)], ids="+".join
)
def test_first_source_that_is_given_counts(given: tuple[str, ...]) -> None:
    """Order: `session_id`, `prompt_cache_key`, `promptCacheKey`, then the header."""
    fields = {source: f"of {source}" for source in given}
    header = fields.pop("header", None)
    assert session_ids(header, **fields) == [f"of {given[0]}" if given else None]


@pytest.mark.parametrize("absent", ["", None, 0, 7, True, [], ["x"], {"a": 1}])
def test_what_is_no_text_or_empty_falls_through(absent: object) -> None:
    assert session_ids("h", session_id=absent, prompt_cache_key="p") == ["p"]
    assert session_ids("h", session_id=absent, promptCacheKey=absent) == ["h"]
    assert session_ids("", session_id=absent) == [None]


@pytest.mark.parametrize(
    "odd", ["\0", " ", "a\r\nb", "\x1b[2J", "é", "\ufffd", "../../etc", "x" * 512]
)
def test_any_text_is_a_session(odd: str) -> None:
    assert session_ids(session_id=odd) == [odd]


def test_only_the_first_choice_uses_the_session() -> None:
    """Reference, `n`."""
    assert session_ids(session_id="s", n=3) == ["s", None, None]
    engine = ScriptedEngine([scripted_model(rows=4)])
    create(engine, session_id="s", n=3)
    assert [request.session_id for request in engine.accepted] == ["s", None, None]


@pytest.mark.parametrize("conflict", [True, False])
def test_usage_tells_of_a_conflict_and_else_says_nothing(conflict: bool) -> None:
    """Reference, `session_conflict`: inside `usage`, omitted when not so."""
    script = Script(tokens=("a",), session_conflict=conflict)
    body = create(engine_that(script), session_id="s").body
    events = list(stream(engine_that(script), stream_options={"include_usage": True}))
    for usage in (body.usage, events[-2].usage):
        assert (usage.session_conflict is True) == conflict
        assert bool(usage.session_conflict) == conflict


def test_cached_tokens_are_those_of_the_engine() -> None:
    engine = ScriptedEngine()
    for expected in (0, 2):
        usage = create(engine, session_id="s").body.usage
        assert usage.prompt_tokens_details.cached_tokens == expected
