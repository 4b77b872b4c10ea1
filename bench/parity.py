"""Log-probabilities and greedy continuations beside llama.cpp's, on the same files and tokens."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from bench.errors import BenchError
from bench.parity_engine import Continuation, config_of, continue_greedily
from bench.parity_peer import PeerContinuation, ask_tokens, peer_server, unpacked
from bench.peer import Peer
from pantheon.engine.gguf import GGUFFile, TensorType

PROMPT_TOKENS: Final = (1, 48, 300)
GREEDY_TOKENS: Final = 24
_WINDOW: Final = 512
_WHOLE_VOCABULARY: Final = 1024
"""The largest vocabulary that is compared whole; of a larger one llama.cpp's likeliest tokens."""

_LIKELIEST: Final = 20
_UNDERFLOW: Final = -80.0
"""llama.cpp takes the logarithm of a probability in float32, which is 0 soon below this."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What two right programs may differ by, in log-probabilities. None: it says nothing.

    Attributes:
        largest: the largest difference.
        typical: the median of the places' rms differences.
        margin: by how much we may prefer our token where the continuations part.
    """

    largest: float | None
    typical: float | None
    margin: float | None

    def __str__(self) -> str:
        parts = (("largest", self.largest), ("typical", self.typical))
        return ", ".join(f"{name} {bound:g}" for name, bound in parts if bound is not None)


FLOAT32: Final = Tolerance(largest=1e-3, typical=None, margin=1e-3)
"""Both compute in float32 and sum in another order. Measured: up to 2e-4, with eight layers of
gated recurrence."""

FLOAT32_LARGE: Final = Tolerance(largest=2e-3, typical=None, margin=2e-3)
"""The same with a large vocabulary, over which llama.cpp sums probabilities one by one in float32:
with 150,000 tokens and more that alone moves every log-probability by up to 1e-3."""

ROUNDED: Final = Tolerance(largest=None, typical=0.15, margin=1.0)
"""Beside packed and half-precision weights llama.cpp rounds the activations, to 8 bits or to the
weights' type. Measured: typical up to 0.09, margins up to 0.5."""

ROUNDED_EXPERTS: Final = Tolerance(largest=None, typical=0.15, margin=None)
"""The same where a rounded activation can also choose another expert: that moves a place as a
whole, by as much as 3. The median of the places does not see those few."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One prompt, compared up to the first place where the continuations part, that included.

    Attributes:
        agreed: tokens before that place; `GREEDY_TOKENS` where they do not part.
        margin: our log-probability of our token less that of theirs, where they part.
        places: the rms difference at each place compared.
        squares: sum of the squared differences of `count` log-probabilities.
    """

    prompt_tokens: int
    agreed: int
    margin: float | None
    largest: float
    places: tuple[float, ...]
    squares: float
    count: int

    def record(self) -> dict[str, Any]:
        """The agreement as JSON."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "agreed": self.agreed,
            "margin": None if self.margin is None else round(self.margin, 6),
            "largest": float(f"{self.largest:.3g}"),
            "rms": float(f"{math.sqrt(self.squares / self.count):.3g}"),
            "compared": self.count,
        }


@dataclass(frozen=True, slots=True)
class Parity:
    """One file beside the peer.

    Attributes:
        weights: what the peer computes with.
    """

    name: str
    weights: str
    tolerance: Tolerance
    agreements: tuple[Agreement, ...]

    @property
    def largest(self) -> float:
        """The largest difference of a log-probability."""
        return max(one.largest for one in self.agreements)

    @property
    def rms(self) -> float:
        """The root of the mean squared difference, over all that was compared."""
        squares = sum(one.squares for one in self.agreements)
        return math.sqrt(squares / sum(one.count for one in self.agreements))

    @property
    def typical(self) -> float:
        """The median of the places' rms differences."""
        return median(place for one in self.agreements for place in one.places)

    @property
    def margin(self) -> float | None:
        """The largest margin where continuations part; None where none does."""
        return max((one.margin for one in self.agreements if one.margin is not None), default=None)

    @property
    def held(self) -> bool:
        """Whether all of it is within the tolerance."""
        tolerance = self.tolerance
        return all(
            bound is None or value is None or value <= bound
            for value, bound in (
                (self.largest, tolerance.largest),
                (self.typical, tolerance.typical),
                (self.margin, tolerance.margin),
            )
        )

    def record(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "file": self.name,
            "peer_weights": self.weights,
            "largest": float(f"{self.largest:.3g}"),
            "rms": float(f"{self.rms:.3g}"),
            "typical": float(f"{self.typical:.3g}"),
            "tolerance": asdict(self.tolerance),
            "held": self.held,
            "prompts": [one.record() for one in self.agreements],
        }


def golden_models(root: Path) -> list[Path]:
    """The reference models of a checkout, unquantised ones first.

    Raises:
        BenchError: they are not there.
    """
    data = root / "tests" / "data"
    found = [*sorted(data.glob("models/*.gguf")), *sorted(data.glob("quant/*.gguf"))]
    if not found:
        raise BenchError("there is no model in tests/data; the bench runs from a checkout")
    return found


def compare_files(peer: Peer, models: Sequence[Path], seed: int) -> list[Parity]:
    """Compare each file, and where its weights are not float32 the peer's unpacked copy of it too.

    Args:
        seed: of the random prompts, which every vocabulary has its own of.

    Raises:
        BenchError: a file cannot be compared.
    """
    found: list[Parity] = []
    for number, model in enumerate(models, start=1):
        print(f"{number}/{len(models)}: {model.name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            found += _compare_file(peer, model, Path(folder), seed)
    return found


def random_prompts(vocabulary: int, seed: int) -> list[list[int]]:
    """Prompts of `PROMPT_TOKENS` ids, control tokens among them."""
    drawn = np.random.default_rng(seed)
    return [drawn.integers(0, vocabulary, count).tolist() for count in PROMPT_TOKENS]


def _compare_file(peer: Peer, model: Path, folder: Path, seed: int) -> list[Parity]:
    config = config_of(model)
    prompts = random_prompts(config.tokens, seed)
    large = config.tokens > _WHOLE_VOCABULARY
    most = _LIKELIEST if large else config.tokens
    same = FLOAT32_LARGE if large else FLOAT32

    def ask(file: Path) -> list[PeerContinuation]:
        with peer_server(peer, file, _WINDOW, folder) as server:
            return [ask_tokens(server, prompt, GREEDY_TOKENS, most) for prompt in prompts]

    if all_float32(model):
        rivals = [("F32", same, ask(model))]
    else:
        rounded = ROUNDED if config.moe is None else ROUNDED_EXPERTS
        rivals = [("as in the file", rounded, ask(model))]
        plain = unpacked(peer, model, folder)
        if plain is not None:
            rivals.append(("unpacked", same, ask(plain)))
    refused = rivals[0][2][0].refused
    ours = continue_greedily(model, prompts, GREEDY_TOKENS, _WINDOW, refused)
    return [
        Parity(
            model.name,
            weights,
            tolerance,
            tuple(
                agreement(len(prompt), one, other)
                for prompt, one, other in zip(prompts, ours, theirs, strict=True)
            ),
        )
        for weights, tolerance, theirs in rivals
    ]


def all_float32(model: Path) -> bool:
    """Whether a file holds nothing but float32."""
    with GGUFFile(model) as file:
        return all(tensor.type is TensorType.F32 for tensor in file.tensors.values())


def agreement(prompt_tokens: int, ours: Continuation, theirs: PeerContinuation) -> Agreement:
    """Compare two continuations of one prompt.

    Raises:
        BenchError: the peer names a token that our vocabulary does not have.
    """
    agreed, margin = len(ours.tokens), None
    found = []
    for step, (token, other) in enumerate(zip(ours.tokens, theirs.tokens, strict=True)):
        logprobs, place = ours.logprobs[step], theirs.places[step]
        if min(other, place.ids.min()) < 0 or max(other, place.ids.max()) >= len(logprobs):
            raise BenchError(f"llama.cpp names a token that is not one of our {len(logprobs)}")
        seen = place.logprobs > _UNDERFLOW
        found.append(np.abs(logprobs[place.ids[seen]] - place.logprobs[seen]))
        if token != other:
            agreed, margin = step, float(logprobs[token] - logprobs[other])
            break
    differences = np.concatenate(found)
    return Agreement(
        prompt_tokens=prompt_tokens,
        agreed=agreed,
        margin=margin,
        largest=float(differences.max()),
        places=tuple(float(np.sqrt(np.mean(np.square(place)))) for place in found),
        squares=float(np.square(differences).sum()),
        count=len(differences),
    )


def parity_table(found: Sequence[Parity]) -> str:
    """The comparisons as a text table."""
    prompts = [f"greedy {count}" for count in PROMPT_TOKENS]
    rows = [
        ("file", "peer's weights", "largest", "rms", "typical", *prompts, "margin", "tolerance", "")
    ]
    for one in found:
        rows.append(
            (
                one.name,
                one.weights,
                f"{one.largest:.1e}",
                f"{one.rms:.1e}",
                f"{one.typical:.1e}",
                *(f"{each.agreed}/{GREEDY_TOKENS}" for each in one.agreements),
                "" if one.margin is None else f"{one.margin:.1e}",
                str(one.tolerance),
                "held" if one.held else "NOT HELD",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
