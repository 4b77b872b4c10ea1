"""Reference, Tool calling: the table of dialects."""

import pytest

from pantheon.engine.tools import dialect_for
from pantheon.engine.tools.qwen import Qwen35Xml, QwenCoderXml


@pytest.mark.parametrize(
    ("served_name", "architecture", "adds_bos", "name"),
    [
        ("my-model", "qwen3moe", False, "qwen3-coder-xml"),
        ("smollm2", "llama", False, "qwen3-coder-xml"),
        ("phi", "phi3", True, "qwen3-coder-xml"),
        ("minicpm5", "llama", True, "minicpm-xml"),
        ("any-name", "llama", True, "minicpm-xml"),
        ("minicpm", "qwen3", True, "qwen3-coder-xml"),
        ("ornith", "qwen35", False, "json"),
        ("ornith-1.0-9b", "llama", True, "json"),
        ("Ornith-1.0-9B-Q4_K_M", "qwen35", False, "json"),
        ("my-ornith", "qwen35", False, "qwen3-coder-xml"),
    ],
)
def test_the_table(served_name: str, architecture: str, adds_bos: bool, name: str) -> None:
    """Name first, then architecture and BOS, then the default."""
    assert dialect_for(served_name, architecture, adds_bos).name == name


def test_qwens_are_told_of_tools_in_the_words_of_their_templates() -> None:
    """chat/Qwen3.5-4B.jinja and chat/Qwen3-Coder.jinja describe tools differently."""
    assert dialect_for("m", "qwen35moe", False) == Qwen35Xml()
    assert dialect_for("m", "qwen3moe", False) == QwenCoderXml(is_qwen=True)
    assert dialect_for("m", "llama", False) == QwenCoderXml(is_qwen=False)
