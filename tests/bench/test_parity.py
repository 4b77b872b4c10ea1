"""What is compared of two continuations, the tolerances, and the table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import BenchError
from bench.parity import (
    FLOAT32,
    FLOAT32_LARGE,
    GREEDY_TOKENS,
    PROMPT_TOKENS,
    ROUNDED,
    ROUNDED_EXPERTS,
    Agreement,
    Parity,
    Tolerance,
    agreement,
    all_float32,
    golden_models,
    parity_table,
    random_prompts,
)
from bench.parity_engine import Continuation
from bench.parity_peer import PeerContinuation, Place

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = Continuation(
    (2, 0, 1), np.array([[-3.0, -2.0, -0.2], [-0.3, -2.0, -1.5], [-1.0, -0.5, -4.0]])
)
SAME = Agreement(48, GREEDY_TOKENS, None, 3e-5, (2e-5, 1e-5), 4e-10, 4)


def _theirs(tokens: tuple[int, ...], *rows: dict[int, float]) -> PeerContinuation:
    places = tuple(Place(np.array(list(row)), np.array(list(row.values()))) for row in rows)
    return PeerContinuation(tokens, places, ())


def _parity(*agreements: Agreement) -> Parity:
    return Parity("tiny.gguf", "F32", FLOAT32, agreements)


def test_every_token_that_the_peer_names_is_compared_at_every_place() -> None:
    theirs = _theirs((2, 0, 1), {2: -0.2, 1: -2.5}, {0: -0.4}, {1: -0.5, 0: -1.0, 2: -4.0})
    found = agreement(7, OURS, theirs)
    assert (found.prompt_tokens, found.agreed, found.margin, found.count) == (7, 3, None, 6)
    assert found.largest == pytest.approx(0.5)
    assert found.squares == pytest.approx(0.26)
    assert found.places == pytest.approx((0.5 / math.sqrt(2), 0.1, 0.0))


def test_where_the_continuations_part_our_margin_is_taken_and_the_comparison_ends() -> None:
    """After that place the two have different contexts."""
    theirs = _theirs((2, 2, 1), {2: -0.2}, {2: -1.5}, {1: -90.0})
    found = agreement(7, OURS, theirs)
    assert (found.agreed, found.count, found.largest) == (1, 2, 0.0)
    assert found.margin == pytest.approx(1.2)


def test_probabilities_that_float32_holds_as_nothing_are_not_compared() -> None:
    """llama.cpp gives the logarithm of 0 as the lowest float32."""
    theirs = _theirs((2, 0, 1), {2: -0.2, 1: -3.4e38}, {0: -0.3}, {1: -0.5})
    assert (found := agreement(7, OURS, theirs)).count == 3
    assert found.largest == 0.0


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_that_we_do_not_have_is_an_error(token: int) -> None:
    for theirs in (
        _theirs((token, 0, 1), {2: -0.2}, {0: -0.3}, {1: -0.5}),
        _theirs((2, 0, 1), {2: -0.2, token: -9.0}, {0: -0.3}, {1: -0.5}),
    ):
        with pytest.raises(BenchError, match="not one of our 3"):
            agreement(7, OURS, theirs)


def test_a_file_is_what_all_its_prompts_are_together() -> None:
    parted = Agreement(300, 11, 1e-3, 1e-4, (3e-5, 9e-5), 3.6e-9, 12)
    found = _parity(SAME, parted, replace(parted, margin=2e-4, places=(4e-5,)))
    assert (found.largest, found.margin, found.typical) == (1e-4, 1e-3, 3e-5)
    assert found.rms == pytest.approx(math.sqrt((4e-10 + 7.2e-9) / 28))
    assert _parity(SAME).margin is None


@pytest.mark.parametrize(
    ("tolerance", "change", "held"),
    [
        (FLOAT32, {}, True),
        (FLOAT32, {"largest": 1e-3}, True),
        (FLOAT32, {"largest": 1.1e-3}, False),
        (FLOAT32, {"largest": math.nan}, False),
        (FLOAT32, {"agreed": 3, "margin": 0.9e-3}, True),
        (FLOAT32, {"agreed": 3, "margin": 1.1e-3}, False),
        (FLOAT32_LARGE, {"largest": 1.9e-3, "agreed": 3, "margin": 1.9e-3}, True),
        (FLOAT32_LARGE, {"largest": 2.1e-3}, False),
        (ROUNDED, {"largest": 2.5, "places": (0.1, 0.14, 1.0)}, True),
        (ROUNDED, {"places": (0.1, 0.16, 0.2)}, False),
        (ROUNDED, {"agreed": 0, "margin": 0.9}, True),
        (ROUNDED, {"agreed": 0, "margin": 1.1}, False),
        (ROUNDED_EXPERTS, {"agreed": 0, "margin": 1.1}, True),
        (ROUNDED_EXPERTS, {"places": (0.1, 0.16, 0.2)}, False),
    ],
)
def test_a_comparison_holds_within_its_tolerance(
    tolerance: Tolerance, change: dict[str, Any], held: bool
) -> None:
    """tests/data/README.md: 1e-3 (models), an rms of 0.15 beside packed weights (quant)."""
    found = Parity("tiny.gguf", "F32", tolerance, (replace(SAME, **change),))
    assert found.held is held


def test_the_record_says_what_was_seen_of_each_prompt_and_what_was_asked() -> None:
    parted = Agreement(1, 3, 0.25, 0.5, (0.5,), 0.5, 2)
    found = Parity("tiny.gguf", "unpacked", FLOAT32, (SAME, parted))
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record == {
        "file": "tiny.gguf",
        "peer_weights": "unpacked",
        "largest": 0.5,
        "rms": 0.289,
        "typical": 2e-05,
        "tolerance": {"largest": 0.001, "typical": None, "margin": 0.001},
        "held": False,
        "prompts": [
            {
                "prompt_tokens": 48,
                "agreed": 24,
                "margin": None,
                "largest": 3e-05,
                "rms": 1e-05,
                "compared": 4,
            },
            {
                "prompt_tokens": 1,
                "agreed": 3,
                "margin": 0.25,
                "largest": 0.5,
                "rms": 0.5,
                "compared": 2,
            },
        ],
    }


def test_the_table_lines_up() -> None:
    whole = _parity(*(replace(SAME, prompt_tokens=count) for count in PROMPT_TOKENS))
    parted = replace(SAME, agreed=5, margin=1.2)
    rounded = Parity("tiny-Q8_0.gguf", "as in the file", ROUNDED, (SAME, parted, SAME))
    head, line, first, second = parity_table((whole, rounded)).splitlines()
    assert head.startswith("file            peer's weights  largest      rms  typical  greedy 1")
    assert first == (
        "tiny.gguf       F32             3.0e-05  1.0e-05  1.5e-05     24/24      24/24       24/24"
        "           largest 0.001      held"
    )
    assert second == (
        "tiny-Q8_0.gguf  as in the file  3.0e-05  1.0e-05  1.5e-05     24/24       5/24       24/24"
        "  1.2e+00   typical 0.15  NOT HELD"
    )
    assert len(line) == len(second)


def test_a_seed_gives_the_same_prompts_again_and_another_gives_others() -> None:
    prompts = random_prompts(320, 5)
    assert [len(prompt) for prompt in prompts] == [1, 48, 300]
    assert all(0 <= token < 320 for prompt in prompts for token in prompt)
    assert random_prompts(320, 5) == prompts
    assert random_prompts(320, 6) != prompts


def test_the_reference_models_are_all_compared_and_float32_is_told_from_the_rest() -> None:
    models = golden_models(ROOT)
    data = ROOT / "tests" / "data"
    assert set(models) == {*data.glob("models/*.gguf"), *data.glob("quant/*.gguf")}
    assert all(all_float32(model) == (model.parent.name == "models") for model in models)


def test_without_the_reference_models_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no model in tests/data"):
        golden_models(tmp_path)
