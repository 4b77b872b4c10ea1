"""Whether the answers of a model are decoded with drafts."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.config import Speculation


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """What was decided.

    Attributes:
        entries: of a decode step, if those that no row takes are to hold drafts, else 0.
        line: the decision in words, for the log.
    """

    entries: int
    line: str


def plan_drafts(
    speculation: Speculation, *, entries: int, is_recurrent: bool, is_mixture: bool
) -> DraftPlan:
    """Decide for one model.

    A step of dense layers computes all its entries in any case. In a mixture of experts a draft
    brings experts of its own into the step, and a recurrent state cannot go back from a wrong one.

    Args:
        entries: of its decode steps.
        is_recurrent: whether it has recurrent layers.
        is_mixture: whether its layers are mixtures of experts.
    """
    if speculation is Speculation.NEVER:
        reason = "PANTHEON_SPECULATION=0"
    elif is_recurrent:
        reason = "recurrent layers take none"
    elif entries == 1:
        reason = "there is one row"
    elif is_mixture and speculation is not Speculation.ALWAYS:
        reason = "in a mixture of experts each costs experts of its own"
    else:
        return DraftPlan(
            entries, f"answers are drafted from their conversations in up to {entries - 1} entries"
        )
    return DraftPlan(0, f"answers are decoded without drafts: {reason}")
