"""Who owns the KV: pages, conversations between their turns, sessions. Knows no device."""

from pantheon.engine.cache.checkpoints import (
    CHECKPOINT_GRID,
    Checkpoint,
    checkpoint_positions,
    latest,
)
from pantheon.engine.cache.conversation import Conversation, common_prefix
from pantheon.engine.cache.history import Continued, continue_history
from pantheon.engine.cache.lease import Lease
from pantheon.engine.cache.pages import PagePool
from pantheon.engine.cache.prefix_cache import MOST_CONVERSATIONS, PrefixCache
from pantheon.engine.cache.references import ReferencePool
from pantheon.engine.cache.sessions import Session, SessionSlotsFull, SessionTable

__all__ = [
    "CHECKPOINT_GRID",
    "MOST_CONVERSATIONS",
    "Checkpoint",
    "Continued",
    "Conversation",
    "Lease",
    "PagePool",
    "PrefixCache",
    "ReferencePool",
    "Session",
    "SessionSlotsFull",
    "SessionTable",
    "checkpoint_positions",
    "common_prefix",
    "continue_history",
    "latest",
]
