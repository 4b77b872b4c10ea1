"""Which models decode with drafts (README, `PANTHEON_SPECULATION`)."""

from __future__ import annotations

import pytest

from pantheon.engine.config import Speculation
from pantheon.engine.draft_plan import DraftPlan, plan_drafts

_DENSE, _RECURRENT, _MIXTURE, _BOTH = (False, False), (True, False), (False, True), (True, True)
_EIGHT = (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("speculation", "batches", "kind", "reason"),
    [
        (Speculation.WHERE_IT_PAYS, _EIGHT, _DENSE, None),
        (Speculation.ALWAYS, _EIGHT, _DENSE, None),
        (Speculation.NEVER, _EIGHT, _DENSE, "PANTHEON_SPECULATION=0"),
        (Speculation.WHERE_IT_PAYS, (1,), _DENSE, "there is one row"),
        (Speculation.ALWAYS, (8,), _RECURRENT, "recurrent layers take none"),
        (Speculation.ALWAYS, (8,), _BOTH, "recurrent layers take none"),
        (
            Speculation.WHERE_IT_PAYS,
            (8,),
            _MIXTURE,
            "in a mixture of experts each costs experts of its own",
        ),
        (Speculation.ALWAYS, (8,), _MIXTURE, None),
    ],
)
def test_who_drafts_and_why_not(
    speculation: Speculation,
    batches: tuple[int, ...],
    kind: tuple[bool, bool],
    reason: str | None,
) -> None:
    recurrent, mixture = kind
    plan = plan_drafts(speculation, batches=batches, is_recurrent=recurrent, is_mixture=mixture)
    if reason is None:
        line = "answers are drafted from their conversations in up to 7 entries of a step"
        assert plan == DraftPlan(speculation, line)
    else:
        line = f"answers are decoded without drafts: {reason}"
        assert plan == DraftPlan(Speculation.NEVER, line)
