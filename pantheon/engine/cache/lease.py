"""What a running sequence holds of the cache."""

from __future__ import annotations

from dataclasses import dataclass, field

from pantheon.engine.cache.checkpoints import Checkpoint
from pantheon.engine.cache.conversation import Conversation


@dataclass(slots=True, eq=False)
class Lease:
    """What a running sequence holds, from its admission to `PrefixCache.settle`.

    Attributes:
        pages: enough for the prompt and what was sampled so far; the first ones may be shared and
            are full, so that it never writes to them.
        promised: pages that it may still come to need and is sure to get.
        cached: leading tokens that need not be computed.
        copied_page: the page whose content must be copied to the one at `cached` before anything
            is computed; None where the cached prefix ends with a page.
        resumed: the checkpoint to start from; None without recurrent layers or on a cold start.
        checkpoints: those that the sequence has, `resumed` and older ones included.
        source: the conversation whose pages it shares.
        continues: the conversation whose next turn this is, so that it takes its place.
        conflict: whether it will displace another conversation of its session.
        prompt_tokens: tokens of the sequence's prompt.
        lost: whether the device has lost what the pages hold.
    """

    pages: tuple[int, ...]
    promised: int = 0
    cached: int = 0
    copied_page: int | None = None
    resumed: Checkpoint | None = None
    checkpoints: list[Checkpoint] = field(default_factory=list)
    source: Conversation | None = None
    continues: Conversation | None = None
    conflict: bool = False
    prompt_tokens: int = 0
    lost: bool = False
