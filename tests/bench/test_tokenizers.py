"""Rates of encoding: what is measured, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.tokenizers import Encoding, encode_texts, table

ENCODING = Encoding("smollm, code", (0.5, 2.0, 1.0), 250_000)


def test_the_record_keeps_every_sample() -> None:
    assert json.loads(json.dumps(ENCODING.record())) == {
        "name": "smollm, code",
        "tokens": 250_000,
        "median": 1.0,
        "samples": [0.5, 2.0, 1.0],
    }


def test_the_table_lines_up() -> None:
    long = Encoding("llama-spm, one letter", (0.25,), 1_000)
    assert table((ENCODING, long)).splitlines() == [
        "vocabulary, text       seconds   MB/s   tokens",
        "smollm, code              1.00   1.00  250,000",
        "llama-spm, one letter     0.25   4.00    1,000",
    ]


def test_without_the_vocabularies_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "pantheon").mkdir()
    (tmp_path / "pantheon" / "a.py").write_text("pass\n")
    with pytest.raises(BenchError, match=r"there is no tests/data/tokenizers/ggml-vocab-gpt-2"):
        encode_texts(tmp_path, 1)
