"""A runner whose programs were kept by another traces nothing and answers the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from pantheon.engine.programs import PrivateFolder, ProgramStore, environment_digest
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner
from tests.engine.model.forward import open_model
from tests.engine.runner.first_token import first_token
from tests.golden import golden_arrays, golden_file

_GREEDY = RowSampling(0.0, 1.0, 0, 0)
_PAGE = 64


def _store(path: Path) -> ProgramStore:
    return ProgramStore(PrivateFolder.open(path), environment_digest(""))


def _runner(name: str, store: ProgramStore | None, *, pages: int = 16) -> tuple[Runner, list[str]]:
    architecture, config, parameters = open_model(golden_file(name))
    capacity = Capacity(rows=2, pages=pages, page_size=_PAGE, window=8 * _PAGE)
    runner = Runner(architecture, config, parameters, capacity)
    lines: list[str] = []
    runner.compile(lines.append, store)
    return runner, [line.split()[0] for line in lines]


def _greedy(runner: Runner, prompt: list[int], count: int) -> list[int]:
    pages = list(range(8))
    runner.load_state(0, None)
    tokens = [token.id for token in first_token(runner, prompt, pages, 0, _GREEDY).read()]
    for position in range(len(prompt), len(prompt) + count - 1):
        step = runner.decode([0], [position], [pages], [_GREEDY])
        tokens += [token.id for token in step.read()]
    return tokens


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("file", "golden"),
    [
        ("quant/llama-smollm-Q8_0.gguf", "quant/llama-smollm-Q8_0.npz"),
        ("models/qwen35-f32.gguf", "models/qwen35.npz"),
    ],
)
def test_kept_steps_give_the_reference_and_trace_nothing(
    tmp_path: Path, file: str, golden: str
) -> None:
    """tests/data/README.md: `greedy`."""
    reference = golden_arrays(golden)
    prompt, expected = reference["ids"].tolist(), reference["greedy"].tolist()
    first, did = _runner(file, _store(tmp_path / "programs"))
    assert set(did) == {"compiled"}
    assert first.traces == len(did)
    second, did = _runner(file, _store(tmp_path / "programs"))
    assert set(did) == {"loaded", "loading"}
    assert did[0] == "loaded"
    assert _greedy(second, prompt, len(expected)) == expected
    page = second.read_page(0)
    second.copy_page(0, 9)
    assert [part.tolist() for part in second.read_page(9)] == [part.tolist() for part in page]
    second.write_page(9, second.empty_page())
    assert not any(part.any() for part in second.read_page(9))
    assert second.traces == 0
    assert second.temporary_bytes("prefill") == first.temporary_bytes("prefill")


def test_another_capacity_is_another_program(tmp_path: Path) -> None:
    file = "quant/llama-smollm-Q8_0.gguf"
    _runner(file, _store(tmp_path / "programs"))
    _, did = _runner(file, _store(tmp_path / "programs"), pages=17)
    assert set(did) == {"compiled"}


def test_a_damaged_program_is_compiled_at_its_first_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pantheon.engine")
    reference = golden_arrays("quant/llama-smollm-Q8_0.npz")
    prompt, expected = reference["ids"].tolist(), reference["greedy"].tolist()
    file = "quant/llama-smollm-Q8_0.gguf"
    _runner(file, _store(tmp_path / "programs"))
    for path in (tmp_path / "programs").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    runner, did = _runner(file, _store(tmp_path / "programs"))
    assert set(did) == {"compiled", "loading"}
    runner.copy_page(0, 1)
    assert "compiled at its first use: copy page" in caplog.text
    assert _greedy(runner, prompt, len(expected)) == expected
    # It was written anew.
    _, did = _runner(file, _store(tmp_path / "programs"))
    assert did[0] == "loaded"
