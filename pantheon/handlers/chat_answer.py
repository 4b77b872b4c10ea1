"""The parts that both forms of a completion share (reference, non-streaming response)."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from pantheon.engine import Finished
from pantheon.engine import Usage as EngineUsage
from pantheon.generated.models import (
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChoice,
    PromptTokensDetails,
    Usage,
)


@dataclass(frozen=True, slots=True)
class ChatIdentity:
    """What names one completion: the same in its answer or in all of its chunks.

    Attributes:
        id: unique, `chatcmpl-` and hexadecimal digits.
        created: Unix seconds.
        model: the served name of the model that answers.
    """

    id: str
    created: int
    model: str

    @classmethod
    def new(cls, model: str) -> ChatIdentity:
        """A fresh identity of a completion that starts now."""
        return cls(id=f"chatcmpl-{secrets.token_hex(12)}", created=int(time.time()), model=model)


def usage_of(usage: EngineUsage) -> Usage:
    """The reference's `usage`."""
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_tokens),
        kv_used=usage.kv_used,
        kv_cap=usage.kv_cap,
    )


def complete_answer(identity: ChatIdentity, text: str, end: Finished) -> ChatCompletion:
    """The body of a completion that is not streamed."""
    choice = ChatCompletionChoice(
        index=0, message=AssistantMessage(content=text), finish_reason=end.finish_reason
    )
    return ChatCompletion(
        id=identity.id,
        created=identity.created,
        model=identity.model,
        choices=[choice],
        usage=usage_of(end.usage),
    )
