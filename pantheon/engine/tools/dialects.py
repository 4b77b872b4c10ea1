"""Which dialect a model speaks."""

from __future__ import annotations

from typing import Final

from pantheon.engine.tools.dialect import Dialect
from pantheon.engine.tools.json_dialect import JsonDialect
from pantheon.engine.tools.minicpm import MiniCpmXml
from pantheon.engine.tools.qwen import Qwen35Xml, QwenCoderXml

_JSON_NAMES: Final = "ornith"


def dialect_for(served_name: str, architecture: str, adds_bos: bool) -> Dialect:
    """The dialect of a model (reference, Tool calling, the table).

    Args:
        served_name: the id clients use; upper and lower case count the same.
        architecture: `general.architecture` of the file. Among models of the default dialect it
            decides how tools are described, which published templates do in two ways.
        adds_bos: whether the chat template writes the BOS token.
    """
    if served_name.lower().startswith(_JSON_NAMES):
        return JsonDialect()
    if architecture == "llama" and adds_bos:
        return MiniCpmXml()
    if architecture.startswith("qwen35"):
        return Qwen35Xml()
    return QwenCoderXml(is_qwen=architecture.startswith("qwen"))
