"""Replicas of one name as the one model that a client sees (reference, `GET /v1/models`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from pantheon.engine import AttentionStatus, GraphCounts, GraphStatus, ModelStatus


def as_one(replicas: Sequence[ModelStatus]) -> ModelStatus:
    """What all of them together are to a client.

    It plans prompts by the smallest window, since a request may go to any of them (as the
    reference argues for the router), and its requests by the sum of what they decode and hold.
    Layers and graph slots are counted over all of them, so that a fault of one is not hidden. One
    that serves no more is no part of it, while any other serves.

    Args:
        replicas: of one name, at least one.
    """
    replicas = [one for one in replicas if one.serves] or replicas
    first = replicas[0]
    if len(replicas) == 1:
        return first
    return replace(
        first,
        max_sessions=sum(one.max_sessions for one in replicas),
        max_concurrent=sum(one.max_concurrent for one in replicas),
        context_window=min(one.context_window for one in replicas),
        tool_choice_required_with_thinking=all(
            one.tool_choice_required_with_thinking for one in replicas
        ),
        attention=_attention(one.attention for one in replicas),
        graphs=_graphs(one.graphs for one in replicas),
    )


def _attention(parts: Iterable[AttentionStatus | None]) -> AttentionStatus | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    reasons = sum((Counter(part.reasons) for part in known), Counter[str]())
    return AttentionStatus(
        ondie=sum(part.ondie for part in known),
        host=sum(part.host for part in known),
        total=sum(part.total for part in known),
        gave_up=sum(part.gave_up for part in known),
        impossible=sum(part.impossible for part in known),
        host_engagements=sum(part.host_engagements for part in known),
        ring_alloc_failures=sum(part.ring_alloc_failures for part in known),
        reasons=reasons,
    )


def _graphs(parts: Iterable[GraphStatus | None]) -> GraphStatus | None:
    """The counts alone: a client is not shown more."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    totals = Counter[str]()
    for part in known:
        totals.update(asdict(part.counts))
    return replace(known[0], counts=GraphCounts(**{name: totals[name] for name in totals}))
