"""The switches of the peer's build, from what the processor says of itself."""

from __future__ import annotations

import pytest

from bench.errors import BenchError
from bench.processor import build_features, cmake_arguments, processor_flags, usable

ZEN2 = (
    "processor\t: 0\nmodel name\t: AMD EPYC\n"
    "flags\t\t: fpu sse2 ssse3 fma sse4_2 avx f16c avx2 bmi1 bmi2 adx\nbugs\t\t: spectre_v1\n"
)
ICELAKE = (
    "flags\t\t: avx avx2 fma f16c bmi2 avx512f avx512cd avx512bw avx512dq avx512vl avx512vbmi "
    "avx512_vnni\n"
)


def test_sets_that_the_processor_lacks_are_switched_off() -> None:
    assert cmake_arguments(processor_flags(ZEN2)) == (
        "-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON "
        "-DGGML_BMI2=ON -DGGML_AVX512=OFF -DGGML_AVX512_VBMI=OFF -DGGML_AVX512_VNNI=OFF"
    )


@pytest.mark.parametrize("spelling", ["avx512vbmi", "avx512_vbmi"])
def test_avx512_with_vbmi_and_vnni_is_switched_on_under_either_spelling(spelling: str) -> None:
    text = cmake_arguments(processor_flags(ICELAKE.replace("avx512vbmi", spelling)))
    assert "OFF" not in text.removeprefix("-DGGML_NATIVE=OFF")


@pytest.mark.parametrize("part", ["avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"])
def test_an_avx512_that_lacks_a_part_the_compiler_would_use_is_not_switched_on(part: str) -> None:
    names = usable(processor_flags(ICELAKE) - {part})
    assert not [name for name in names if name.startswith("AVX512")]


def test_a_machine_that_is_not_x86_has_no_flags() -> None:
    assert processor_flags("processor\t: 0\nFeatures\t: fp asimd\n") == frozenset()


def test_only_whole_lines_named_flags_count() -> None:
    assert processor_flags("vmx flags\t: avx2\nflags\t\t: avx\n") == {"avx"}


def test_features_of_a_build_are_read_from_its_system_info_line() -> None:
    output = (
        "0.00.010 I srv  llama_server: initializing ...\n"
        "0.00.013 I cmn  common_param: system_info: n_threads = 2 (n_threads_batch = 2) / 2 | "
        "CPU : SSE3 = 1 | AVX2 = 1 | FMA = 0 | REPACK = 1 | \n"
        "0.00.020 E load_model: x = 1 | \n"
    )
    assert build_features(output) == ("SSE3", "AVX2", "REPACK")


def test_a_program_that_does_not_tell_its_features_is_an_error() -> None:
    with pytest.raises(BenchError, match="features"):
        build_features("usage: something else\n")
