"""What a scripted generation says, and the events that this makes of a request."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Final

from pantheon.engine.answer_calls import AnswerCalls, CallDelta
from pantheon.engine.errors import EngineError
from pantheon.engine.events import (
    Delta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    TokenLogprob,
)
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.tools import Dialect, Text, ToolCallError

_TOKEN: Final = re.compile(r"\s*\S+|\s+\Z")
_ECHO_LIMIT: Final = 64


@dataclass(frozen=True, slots=True)
class Script:
    """What one generation does.

    Attributes:
        tokens: the answer.
        reasoning: the tokens of a think block before it; left out with `enable_thinking` false
            and cut to the request's reasoning budget.
        tokens_per_event: tokens of the answer that one event carries.
        token_seconds: time before each event.
        ends_as: why the generation ends where neither a limit nor a stop string ends it.
        format_closed: whether such an end leaves a complete answer in the requested format.
        session_conflict: what its usage says of the session.
        refusal: raised instead of accepting the request.
        fails_after: events after which the generation fails; None for never.
    """

    tokens: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    tokens_per_event: int = 1
    token_seconds: float = 0.0
    ends_as: FinishReason = "stop"
    format_closed: bool = True
    session_conflict: bool = False
    refusal: EngineError | None = None
    fails_after: int | None = None


@dataclass(frozen=True, slots=True)
class Performance:
    """A script played for one request.

    Attributes:
        events: the deltas in order.
        counts: tokens up to and with each of them.
        said: all text, calls as they are written.
        reason: why it ends.
        format_closed: see `Finished.format_closed`.
        tool_call_error: see `Finished.tool_call_error`.
    """

    events: tuple[Delta, ...]
    counts: tuple[int, ...]
    said: str
    reason: FinishReason
    format_closed: bool | None
    tool_call_error: ToolCallError | None = None


def tokens_of(text: str) -> tuple[str, ...]:
    """The tokens of a text; joined they are the text."""
    return tuple(_TOKEN.findall(text))


def token_id(token: str) -> int:
    """A number for a token, the same in every process."""
    return zlib.crc32(token.encode("utf-8", "surrogatepass")) >> 1


def prompt_tokens(request: CompletionRequest) -> tuple[int, ...]:
    """The tokens of a prompt: for each message one that opens the turn, and its words."""
    return tuple(
        token_id(token)
        for message in request.messages
        for token in (f"<{message['role']}>", *tokens_of(str(message["content"])))
    )


def echo(request: CompletionRequest) -> Script:
    """Answer with the last message, at most 64 tokens of it."""
    return Script(tokens=tokens_of(str(request.messages[-1]["content"]))[:_ECHO_LIMIT])


def scripted_logprob(text: str, alternatives: int) -> TokenLogprob:
    """The log-probability that every scripted token has: -0.5, its alternatives from -1 down."""
    return TokenLogprob(
        text=text,
        data=text.encode(),
        logprob=-0.5,
        alternatives=tuple(
            TokenAlternative(text=f"alternative {rank}", data=b"alternative", logprob=-float(rank))
            for rank in range(1, alternatives + 1)
        ),
    )


def perform(script: Script, request: CompletionRequest, room: int, dialect: Dialect) -> Performance:
    """Play a script. What its answer holds of calls of offered tools becomes calls.

    Args:
        script: what to say.
        request: its limits, stop strings and switches are kept.
        room: tokens that the context window leaves.
        dialect: in which calls are written.
    """
    limit = min(request.max_tokens, room)
    reasoning = () if request.enable_thinking is False else script.reasoning
    if request.reasoning_budget is not None and request.reasoning_budget > 0:
        reasoning = reasoning[: request.reasoning_budget]
    thought = reasoning[:limit]
    answer, reason = _cut(script, limit - len(thought), request.stop)
    if len(reasoning) > limit:
        reason = "length"
    events: list[Delta] = [ReasoningDelta(token) for token in thought]
    counts = list(range(1, len(thought) + 1))
    calls = None
    if request.tool_use is not None:
        parser = dialect.parser(request.tool_use.tools)
        calls = AnswerCalls(parser, compelled=request.tool_use.required)
    for start in range(0, len(answer), script.tokens_per_event):
        group = answer[start : start + script.tokens_per_event]
        text, logprobs = "".join(group), _logprobs(group, request.top_logprobs)
        found = (
            [TextDelta(text, logprobs)] if calls is None else _deltas(calls.push(text), logprobs)
        )
        events += found
        counts += [len(thought) + start + len(group)] * len(found)
    if calls is not None:
        found = _deltas(calls.finish(cut=reason == "length"), ())
        events += found
        counts += [len(thought) + len(answer)] * len(found)
    closed = script.format_closed and reason == script.ends_as
    return Performance(
        events=tuple(events),
        counts=tuple(counts),
        said="".join((*thought, *answer)),
        reason=reason,
        format_closed=None if request.response_format is None else closed,
        tool_call_error=None if calls is None else calls.error,
    )


def _deltas(found: list[Text | CallDelta], logprobs: tuple[TokenLogprob, ...]) -> list[Delta]:
    """Content and parts of calls as deltas; the log-probabilities go with the first content."""
    deltas: list[Delta] = []
    for part in found:
        if isinstance(part, Text):
            deltas.append(TextDelta(part.text, logprobs))
            logprobs = ()
        else:
            deltas.append(part)
    return deltas


def _logprobs(tokens: tuple[str, ...], alternatives: int | None) -> tuple[TokenLogprob, ...]:
    if alternatives is None:
        return ()
    return tuple(scripted_logprob(token, alternatives) for token in tokens)


def _cut(script: Script, limit: int, stop: tuple[str, ...]) -> tuple[tuple[str, ...], FinishReason]:
    """The tokens up to the first stop string or the limit, and why they end there."""
    tokens = script.tokens
    text = "".join(tokens[:limit])
    found = [at for at in (text.find(string) for string in stop) if at >= 0]
    if found:
        return tokens_of(text[: min(found)]), "stop"
    return tokens[:limit], "length" if len(tokens) > limit else script.ends_as
