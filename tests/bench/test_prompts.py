"""Prompts: all different, the same in every run."""

from __future__ import annotations

from bench.prompts import Prompts


def test_prompts_of_a_run_differ_and_those_of_two_runs_do_not() -> None:
    def drawn() -> list[str]:
        source = Prompts(seed=0)
        return [source.words(480) for _ in range(20)] + [source.story() for _ in range(75)]

    first = drawn()
    assert len(set(first)) == len(first)
    assert first == drawn()


def test_a_prompt_of_words_has_that_many() -> None:
    assert len(Prompts(seed=1).words(480).split()) == 480
