"""A model that writes given texts: each token has one successor, whatever came before it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np

from tests.engine.model.rewritten import rewritten


def chain_model(source: Path, target: Path, chains: Mapping[int, Sequence[int]]) -> Path:
    """Rewrite an untied model of F32 tensors without biases.

    Layers add nothing to the embedding of the last token, and the head finds its successor.

    Args:
        chains: for a token that may end a prompt the tokens that follow it, one after another. No
            token may have two successors.
    """
    reader = gguf.GGUFReader(source)
    tensors = {tensor.name: np.asarray(tensor.data) for tensor in reader.tensors}
    embedding, norm = tensors["token_embd.weight"], tensors["output_norm.weight"]
    size = np.sqrt(np.mean(np.square(embedding), axis=1, keepdims=True))
    states = embedding / size * norm
    head = np.zeros_like(tensors["output.weight"])
    successors: dict[int, int] = {}
    for first, following in chains.items():
        for token, successor in zip((first, *following[:-1]), following, strict=True):
            assert successors.setdefault(token, successor) == successor, (token, successor)
    for token, successor in successors.items():
        head[successor] += states[token]
    silent = {
        name: np.zeros_like(array)
        for name, array in tensors.items()
        if name.endswith(("attn_output.weight", "ffn_down.weight"))
    }
    return rewritten(source, target, tensors={**silent, "output.weight": head})
