"""What two conversations with made-up times show."""

from __future__ import annotations

from bench.conversation import Turns, measures
from bench.streaming import Answer


def _answer(first: float, prompt: int, cached: int, computed: int | None = None) -> Answer:
    return Answer(
        sent=10.0,
        chunks=(10.0 + first, 11.0 + first),
        finished=12.0 + first,
        prompt_tokens=prompt,
        completion_tokens=2,
        cached_tokens=cached,
        computed_tokens=computed,
    )


def test_the_share_is_warm_by_cold_and_the_goal_one_twentieth() -> None:
    ours = Turns((_answer(20.0, 5000, 0), _answer(1.0, 6000, 5900)), _answer(25.0, 6001, 0))
    theirs = Turns((_answer(20.0, 5000, 0), _answer(2.0, 6000, 0, 100)), _answer(20.0, 6000, 0))
    warm, cold, share = measures(ours, theirs)
    assert (warm.value, warm.peer, warm.goal) == (1.0, 2.0, None)
    assert (cold.value, cold.peer) == (25.0, 20.0)
    assert (share.value, share.peer, share.met) == (0.04, 0.1, True)


def test_cached_tokens_are_the_servers_or_what_it_did_not_compute() -> None:
    turns = Turns((_answer(1.0, 6000, 5900),), _answer(25.0, 6001, 0))
    details = turns.details()
    assert (details["prompt_tokens"], details["cached_tokens"]) == (6000, 5900)
    assert (details["prompt_tokens_cold"], details["cached_tokens_cold"]) == (6001, 0)
    assert details["first_token_seconds"] == [1.0]
    peer = Turns((_answer(1.0, 6000, 0, 100),), _answer(25.0, 6000, 0, 6000)).details()
    assert (peer["cached_tokens"], peer["cached_tokens_cold"]) == (5900, 0)
