"""`python -m bench.gpu_check`: all parts on a CPU in place of a GPU; what it says without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from bench.gpu_check import __main__ as gpu_check
from bench.gpu_check.check import Check, largest_error
from bench.gpu_check.parity import divergences
from bench.gpu_check.raw_cases import product_error, raw_matrix
from bench.gpu_check.target import TINY, Target
from bench.results import ROOT
from tests.golden import golden_file

pytestmark = pytest.mark.timeout(600)


def test_without_a_cuda_device_it_ends_with_2_and_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert gpu_check.main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "gpu-check: expected a CUDA device, found cpu\n"


def test_jax_platforms_that_names_cuda_alone_is_no_other_error() -> None:
    run = subprocess.run(
        (sys.executable, "-m", "bench.gpu_check"),
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cuda"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert run.stderr.splitlines()[-1] == "gpu-check: expected a CUDA device, found cpu"
    assert "Traceback" not in run.stderr


def test_every_part_runs_and_is_kept_as_one_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernels in Pallas are interpreted; those in Triton need a GPU."""
    models = [golden_file("models/qwen35-f32.gguf"), golden_file("models/llama-smollm-f32.gguf")]
    arguments = ["--device", "cpu", "--results", str(tmp_path), "--model", *map(str, models)]
    assert gpu_check.main(arguments) == 0, capsys.readouterr().out
    (line,) = (tmp_path / "gpu_check.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["device"]["platform"] == "cpu"
    assert {"commit", "machine", "versions", "time", "seconds"} <= set(record)
    kinds = {check["name"].partition(":")[0] for check in record["checks"]}
    assert {
        "paged_attention, float16",
        "paged_attention, float32",
        "gated_delta_rule",
        "causal_conv",
        "add_rms_norm",
        "silu_product",
        "rotate",
        "scores of qwen35-f32",
        "scores of llama-smollm-f32",
        "tokens of a second pass",
        "tokens of steps without graphs",
        "tokens of pages in host memory",
        "layers on the die that has no room",
    } <= kinds
    assert all(check["passed"] for check in record["checks"])
    assert set(record["rates"]["decode_tokens_per_s"]) == {"1", "2"}
    assert (record["rates"]["attention"]["ondie"], record["rates"]["graphs"]) == (2, None)
    for kernel in record["kernels"]:
        assert kernel["least_bytes"] > 0
        assert kernel["least_seconds"] == pytest.approx(
            kernel["least_bytes"] / record["bytes_per_s"]
        )


def test_what_is_outside_of_its_tolerance_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = jax.devices("cpu")[0]

    def wrong(target: Target, models: list[Path]) -> tuple[dict[str, object], bool]:
        assert target == Target(host, host, TINY)
        return {}, False

    monkeypatch.setattr(gpu_check, "run", wrong)
    assert gpu_check.main(["--device", "cpu", "--results", str(tmp_path)]) == 1


def test_what_is_no_number_is_not_passed_and_is_json() -> None:
    check = Check("a kernel", float("nan"), 1.0)
    assert not check.passed
    assert check.record()["error"] is None


def test_an_error_is_a_share_of_the_largest_value() -> None:
    assert largest_error(np.array([1.0, 8.5]), np.array([1.0, 8.0])) == 0.5 / 8
    assert np.isnan(largest_error(np.array([1.0, np.nan]), np.array([1.0, 8.0])))
    assert largest_error(np.array([1.0, 7.0]), np.array([1.0, np.nan])) == 0, "padding"


def test_divergence_is_that_of_kullback_and_leibler() -> None:
    """Kullback and Leibler, 1951: sum of p log(p / q); logits have no zero of their own."""
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    found = divergences(np.log(p)[None], np.log(q)[None] + 7)
    np.testing.assert_allclose(found, [np.sum(p * np.log(p / q))])
    np.testing.assert_allclose(
        divergences(np.array([[0.0, -np.inf]]), np.array([[3.0, -np.inf]])), 0
    )


def test_products_are_measured_by_the_magnitudes_of_their_terms() -> None:
    data, values = raw_matrix("Q4_K", (3,), 512)
    assert (data.shape, values.shape) == ((3, 288), (3, 512))
    x = np.ones((2, 512), np.float32)
    exact = x.astype(np.float64) @ values.T
    assert product_error(exact, x, values) == 0
    terms = np.abs(values).sum(axis=1)
    assert product_error(exact + 0.01 * terms, x, values) == pytest.approx(0.01)
