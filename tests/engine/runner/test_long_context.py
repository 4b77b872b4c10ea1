"""A long window costs the memory of its pages and no more (README, context lengths)."""

from dataclasses import replace

import pytest

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from tests.engine.model.forward import open_model
from tests.engine.runner.first_token import first_token
from tests.golden import golden_file

_PAGE = 64


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["llama-smollm", "qwen35moe"])
def test_what_a_step_needs_beside_its_arguments_does_not_grow_with_the_window(name: str) -> None:
    """32768 tokens: one row of scores of a whole prompt would be 4 GB in float32, and 16 MB for
    each head of a chunk."""
    architecture, config, parameters = open_model(golden_file(f"models/{name}-f32.gguf"))
    config = replace(config, context_length=32768)
    needed = []
    for window in (1024, 32768):
        runner = Runner(
            architecture, config, parameters, Capacity(8, 16, _PAGE, window), batches=(8,)
        )
        runner.compile(lambda message: None)
        needed += [runner.temporary_bytes(step) for step in ("prefill", "decode 8")]
    short_prefill, short_decode, prefill, decode = needed
    tables = 8 * 32768 // _PAGE * 4
    assert prefill <= short_prefill + 4 * tables
    assert decode <= short_decode + 4 * tables


@pytest.mark.timeout(300)
def test_a_prompt_of_thousands_of_tokens_is_prefilled_chunk_by_chunk() -> None:
    """Beyond the positions of the reference data; what was written at the start is still read."""
    architecture, config, parameters = open_model(golden_file("models/llama-smollm-f32.gguf"))
    size = 4096
    runner = Runner(
        architecture,
        replace(config, context_length=size),
        parameters,
        Capacity(1, size // _PAGE, _PAGE, size),
    )
    runner.compile(lambda message: None)
    pages, greedy = list(range(size // _PAGE)), RowSampling(0.0, 1.0, 0, 0, top_logprobs=1)
    found = []
    for first in (7, 8):
        tokens = [first] + [20] * (size - 1)
        sampled = first_token(runner, tokens, pages, 0, greedy)
        found.append(sampled.read()[0].alternatives)
    assert found[0] != found[1]
