"""Whether the answers of a model are decoded with drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pantheon.engine.config import Speculation


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """What was decided.

    Attributes:
        speculation: which decode steps hold drafts.
        line: the decision in words, for the log.
    """

    speculation: Speculation
    line: str


def plan_drafts(
    speculation: Speculation, *, batches: Sequence[int], is_recurrent: bool, is_mixture: bool
) -> DraftPlan:
    """Decide for one model.

    In a mixture of experts a draft brings experts of its own into the step, and a recurrent state
    cannot go back from a wrong one.

    Args:
        batches: entries that its decode steps are compiled for, rising.
        is_recurrent: whether it has recurrent layers.
        is_mixture: whether its layers are mixtures of experts.
    """
    if speculation is Speculation.NEVER:
        reason = "PANTHEON_SPECULATION=0"
    elif is_recurrent:
        reason = "recurrent layers take none"
    elif batches[-1] == 1:
        reason = "there is one row"
    elif is_mixture and speculation is not Speculation.ALWAYS:
        reason = "in a mixture of experts each costs experts of its own"
    else:
        most = f"up to {batches[-1] - 1} entries of a step"
        return DraftPlan(speculation, f"answers are drafted from their conversations in {most}")
    return DraftPlan(Speculation.NEVER, f"answers are decoded without drafts: {reason}")
