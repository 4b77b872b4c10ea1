"""KL divergence from the float32 reference, of every mode and of llama.cpp, on one fixed text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.errors import BenchError
from bench.goals import Goal
from bench.kl_base import evaluated, write_base
from bench.kl_engine import MODES, EngineLogits, Mode
from bench.kl_peer import peer_divergence
from bench.kl_stats import Divergence
from bench.peer import Peer
from bench.reference_forward import ReferenceModel
from bench.text_table import text_table
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import Tokenizer, Vocabulary

TEXT: Final = "kl_text.txt"
CONTEXT: Final = 256
GOAL: Final = Goal(10.0, at_most=False)
"""Times closer to the reference than llama.cpp, in the mean."""

_EXACT: Final = 1e-12
"""A divergence that float64 cannot tell from none."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """One way of computing the logits, beside llama.cpp's on the same way.

    Attributes:
        way: `prefill`, or `decode` for one row.
    """

    name: str
    way: str
    ours: Divergence
    theirs: Divergence

    @property
    def closer(self) -> float:
        """How many times smaller our mean is."""
        return self.theirs.mean / max(self.ours.mean, _EXACT)

    @property
    def met(self) -> bool:
        """Whether the goal is."""
        return GOAL.met(self.closer)

    def record(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            "mode": self.name,
            "way": self.way,
            "pantheon": self.ours.record(),
            "peer": self.theirs.record(),
            "closer": round(self.closer, 2),
            "goal": str(GOAL),
            "met": self.met,
        }


def measure_accuracy(
    root: Path, peer: Peer, model: Path, folder: Path, decoded_chunks: int
) -> tuple[list[Accuracy], int]:
    """Measure every mode, by prefill and by decoding one row.

    Args:
        folder: for the reference's log-probabilities; some hundred MB.
        decoded_chunks: chunks of the text that are decoded token by token, at the most.

    Returns:
        The rows, and how many positions of the text are compared in a prefill.

    Raises:
        BenchError: the model is one that the reference does not know, or something fails.
    """
    tokens = _tokens(root, model)
    wanted = evaluated(CONTEXT)
    print(f"reference: {len(tokens)} x {CONTEXT} tokens in float32", flush=True)
    references = list(_references(model, tokens, wanted))
    vocabulary = references[0].shape[1]
    few = slice(decoded_chunks)
    ways = (("prefill", slice(None), CONTEXT), ("decode, 1 row", few, 1))
    theirs = {}
    for way, chunks, batch in ways:
        base = folder / "base.bin"
        write_base(base, tokens[chunks], vocabulary, references[chunks])
        theirs[way] = peer_divergence(peer, model, base, CONTEXT, batch, folder)
        base.unlink()
        print(f"llama.cpp, {way}: {theirs[way].mean:.3g} nats in the mean", flush=True)
    found = []
    for mode in MODES:
        for way, ours in _ours(model, mode, tokens, wanted, references, few):
            print(f"{mode.name}, {way}: {ours.mean:.3g} nats in the mean", flush=True)
            found.append(Accuracy(mode.name, way, ours, theirs[way]))
    return found, len(tokens) * len(wanted)


def _ours(
    model: Path,
    mode: Mode,
    tokens: np.ndarray,
    wanted: range,
    references: Sequence[np.ndarray],
    few: slice,
) -> Iterator[tuple[str, Divergence]]:
    engine = EngineLogits(model, CONTEXT, mode)
    ways: tuple[tuple[str, slice, Callable[[list[int], range], np.ndarray]], ...] = (
        ("prefill", slice(None), engine.prefilled),
        ("decode, 1 row", few, engine.decoded),
    )
    try:
        for way, chunks, logits in ways:
            pairs = [
                # The vocabulary of a step is padded; what is no token has no score.
                (logits(chunk.tolist(), wanted)[:, : reference.shape[1]], reference)
                for chunk, reference in zip(tokens[chunks], references[chunks], strict=True)
            ]
            yield way, Divergence.of(pairs)
    finally:
        engine.close()


def _tokens(root: Path, model: Path) -> np.ndarray:
    """The text's tokens, as many chunks of `CONTEXT` as it has."""
    with GGUFFile(model) as file:
        tokenizer = Tokenizer(Vocabulary.from_metadata(file.metadata))
        if file.metadata.optional_boolean("tokenizer.ggml.add_bos_token"):
            # llama-perplexity would put it in the place of each chunk's first token.
            raise BenchError(f"{model.name}: expected a tokenizer that adds no BOS")
    text = (root / "bench" / TEXT).read_text("utf-8")
    tokens = np.array(tokenizer.encode(text, special=False), np.int32)
    chunks = len(tokens) // CONTEXT
    if not chunks:
        raise BenchError(f"expected a text of at least {CONTEXT} tokens, got {len(tokens)}")
    return tokens[: chunks * CONTEXT].reshape(chunks, CONTEXT)


def _references(model: Path, tokens: np.ndarray, wanted: range) -> Iterator[np.ndarray]:
    reference = ReferenceModel(model)
    for chunk in tokens:
        yield reference.logits(reference.hidden_states(chunk)[wanted.start : wanted.stop])


def accuracy_table(found: Sequence[Accuracy]) -> str:
    """The rows as a text table."""
    head = ("mode", "way", "mean KL", "llama.cpp", "largest", "llama.cpp", "same top", "llama.cpp")
    lines = [(*head, "closer", "goal", "")]
    for one in found:
        ours, theirs = one.ours, one.theirs
        lines.append(
            (
                one.name,
                one.way,
                *(f"{ours.mean:.2e}", f"{theirs.mean:.2e}"),
                *(f"{ours.largest:.2e}", f"{theirs.largest:.2e}"),
                *(f"{ours.same_top:.2%}", f"{theirs.same_top:.2%}"),
                *(f"{one.closer:,.1f}x", str(GOAL), "met" if one.met else "MISSED"),
            )
        )
    return text_table(lines, left=2)
