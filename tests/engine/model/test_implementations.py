"""Which implementation a platform takes: the kernels that were built for it, or plain XLA, which
runs on every platform of JAX (ARCHITECTURE, "Which kernels compute")."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pantheon.engine.model import Implementation, chosen_line, implementation_for, platform_of


def _found(
    platform: str,
    *,
    kernels: bool = True,
    native: str | None = None,
    has_package: Callable[[str], bool] = lambda name: True,
) -> tuple[Implementation, str | None]:
    choice = implementation_for(
        platform, kernels=kernels, native_missing=lambda: native, has_package=has_package
    )
    return choice.implementation, choice.missing


def test_a_cpu_takes_the_native_kernels_where_they_were_built() -> None:
    assert _found("cpu") == (Implementation.NATIVE, None)
    assert _found("cpu", native="no compiler") == (Implementation.XLA, "no compiler")


def test_cuda_takes_the_kernels_for_gpus_where_triton_is_installed() -> None:
    assert _found("cuda") == (Implementation.GPU, None)
    without = _found("cuda", has_package=lambda name: name != "jax_triton")
    assert without == (Implementation.XLA, "jax_triton not installed")
    assert (
        _found("cuda", has_package=lambda name: False)[1] == "triton and jax_triton not installed"
    )


@pytest.mark.parametrize("platform", ["rocm", "tpu", "metal", "tt"])
def test_every_other_platform_takes_plain_xla_and_says_why(platform: str) -> None:
    implementation, missing = _found(platform)
    assert implementation is Implementation.XLA
    assert missing is not None and platform in missing


@pytest.mark.parametrize("platform", ["cpu", "cuda", "metal"])
def test_kernels_can_be_switched_off(platform: str) -> None:
    assert _found(platform, kernels=False) == (Implementation.XLA, None)


@pytest.mark.parametrize(
    ("platform", "version", "expected"),
    [
        ("gpu", "PJRT C API\ncuda 12090", "cuda"),
        ("gpu", "rocm 60000", "rocm"),
        ("cpu", "<unknown>", "cpu"),
        ("METAL", "cuda", "METAL"),
    ],
)
def test_jax_calls_the_devices_of_two_makers_gpu(
    platform: str, version: str, expected: str
) -> None:
    assert platform_of(platform, version) == expected


@pytest.mark.parametrize("implementation", list(Implementation))
def test_every_operation_says_what_it_takes(implementation: Implementation) -> None:
    parts = dict(part.split(": ", 1) for part in chosen_line(implementation).split("; "))
    assert list(parts) == ["attention", "delta rule", "convolution", "rows", "products", "experts"]
    if implementation is Implementation.XLA:
        assert all(part.startswith("plain XLA") for part in parts.values())
    if implementation is Implementation.GPU:
        assert "Triton" in parts["products"] and "Triton" in parts["experts"]
        assert "Pallas" in parts["attention"] and "Q4_K" in parts["products"]
