"""KL divergences: of distributions with known ones, and in llama-perplexity's file and output."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.kl import Accuracy, accuracy_table
from bench.kl_base import evaluated, packed_rows, write_base
from bench.kl_peer import read_divergence
from bench.kl_stats import Divergence, kl_divergence

OUTPUT = """\
====== KL divergence statistics ======
Mean    KLD:   0.004321 ±   0.000210
Maximum KLD:   0.150000
Median  KLD:   0.002000
====== Token probability statistics ======
Same top p: 97.250 ± 0.611 %
"""


def _logs(*probabilities: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array([probabilities], np.float32))


def test_the_divergence_of_two_coins() -> None:
    """KL((1/2, 1/2) || (1/4, 3/4)) = 1/2 ln 2 + 1/2 ln 2/3, by the definition."""
    expected = 0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    assert kl_divergence(_logs(0.25, 0.75), _logs(0.5, 0.5))[0] == pytest.approx(expected)


def test_what_the_reference_excludes_adds_nothing() -> None:
    assert kl_divergence(_logs(0.5, 0.25, 0.25), _logs(0.5, 0.5, 0.0))[0] == pytest.approx(
        0.5 * np.log(2)
    )


@given(st.integers(0, 2**32 - 1), st.floats(-50, 50))
def test_a_shift_of_all_logits_is_no_divergence(seed: int, shift: float) -> None:
    logits = np.random.default_rng(seed).standard_normal((2, 9))
    assert np.abs(kl_divergence(logits + shift, logits)).max() < 1e-12


def test_the_statistics_are_over_all_positions_of_all_chunks() -> None:
    same, other = _logs(0.75, 0.25), _logs(0.25, 0.75)
    found = Divergence.of([(same, same), (other, same)])
    largest = 0.75 * np.log(3) - 0.25 * np.log(3)
    assert found.largest == pytest.approx(largest)
    assert found.mean == pytest.approx(largest / 2)
    assert found.same_top == 0.5


def test_the_output_of_llama_perplexity_is_read() -> None:
    assert read_divergence(OUTPUT) == Divergence(0.004321, 0.15, 0.9725)


def test_an_output_without_statistics_is_an_error_that_names_them() -> None:
    with pytest.raises(BenchError, match="did not tell largest, same_top"):
        read_divergence("Mean    KLD:   0.004321 ±   0.000210\n")


def test_the_second_half_of_a_chunk_is_compared_but_for_its_last_position() -> None:
    """`perplexity.cpp`: from n_ctx/2, so many as n_ctx - 1 - n_ctx/2."""
    assert evaluated(256) == range(128, 255)
    assert len(evaluated(7)) == 7 - 1 - 7 // 2


@pytest.mark.parametrize("vocabulary", [5, 6])
def test_packed_rows_hold_log_probabilities_in_16_bits(vocabulary: int) -> None:
    logits = np.random.default_rng(3).standard_normal((4, vocabulary)).astype(np.float32)
    rows = packed_rows(logits)
    assert rows.shape == (4, 2 * ((vocabulary + 1) // 2) + 4)
    scale, bottom = rows[:, 0:2].copy().view(np.float32), rows[:, 2:4].copy().view(np.float32)
    found = scale * rows[:, 4 : 4 + vocabulary] + bottom
    exact = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert np.abs(found - exact).max() <= scale.max() * 0.51


def test_scores_more_than_sixteen_below_the_largest_are_cut() -> None:
    rows = packed_rows(np.array([[0.0, -40.0, -8.0]], np.float32))
    assert rows[0, 4:7].tolist() == [65535, 0, 32768]


def test_a_base_file_has_the_head_that_llama_perplexity_reads(tmp_path: Path) -> None:
    tokens = np.arange(16).reshape(2, 8)
    logits = np.zeros((3, 6), np.float32)
    write_base(tmp_path / "base", tokens, 6, [logits, logits])
    data = (tmp_path / "base").read_bytes()
    assert data[:8] == b"_logits_"
    assert struct.unpack_from("<Iii", data, 8) == (8, 6, 2)
    assert np.frombuffer(data, "<i4", 16, 20).tolist() == list(range(16))
    assert len(data) == 20 + 16 * 4 + 2 * 3 * (6 + 4) * 2


def test_the_table_says_how_much_closer_and_whether_that_is_enough() -> None:
    ours, theirs = Divergence(1e-4, 1e-2, 1.0), Divergence(5e-4, 5e-2, 0.9)
    text = accuracy_table([Accuracy("default", "prefill", ours, theirs)])
    cells = text.splitlines()[-1].split()
    assert cells[:4] == ["default", "prefill", "1.00e-04", "5.00e-04"]
    assert cells[4:8] == ["1.00e-02", "5.00e-02", "100.00%", "90.00%"]
    assert cells[8:] == ["5.0x", ">=", "10", "MISSED"]
