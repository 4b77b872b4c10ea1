"""llama.cpp's greedy continuations of given tokens, with its log-probabilities."""

from __future__ import annotations

import http.client
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.peer import Peer
from bench.process import running, wait_until
from bench.servers import HOST, Server, llama_cpp
from pantheon.engine.gguf import GGUFFile

_OPTIONS: Final = (
    *("--threads", "2", "--threads-batch", "2"),
    *("--cache-type-k", "f32", "--cache-type-v", "f32"),
    *("--flash-attn", "off", "--no-warmup"),
)
"""Float32 wherever the file leaves a choice."""

_LETTER: Final = "a"
_FORCED: Final = 1e6
_ANSWER_SECONDS: Final = 600.0
_MAX_ANSWER: Final = 256 << 20
_UNPACK_SECONDS: Final = 600.0
_MOST_UNPACKED: Final = 8 << 30


@dataclass(frozen=True, slots=True)
class Place:
    """What may stand at one place of a continuation.

    Attributes:
        ids: the likeliest tokens.
        logprobs: the natural logarithms of their probabilities.
    """

    ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PeerContinuation:
    """A greedy continuation of one prompt, as llama.cpp gives it.

    Attributes:
        tokens: those chosen, the first one after the prompt's end.
        places: the place of each of `tokens`. A completion has fewer where the text so far ends
            inside a character: llama.cpp says nothing of those.
        refused: ids that it does not choose: what ends an answer.
    """

    tokens: tuple[int, ...]
    places: tuple[Place, ...]
    refused: tuple[int, ...]


@contextmanager
def peer_server(peer: Peer, model: Path, window: int, folder: Path) -> Iterator[Server]:
    """llama-server on a file, computing in float32 where the file leaves a choice.

    Raises:
        BenchError: it does not start.
    """
    with llama_cpp(peer, model, 1, window, folder / "llama.log", options=_OPTIONS) as server:
        yield server


def ask_tokens(server: Server, prompt: Sequence[int], length: int, most: int) -> PeerContinuation:
    """Have a prompt of token ids continued by `length` tokens.

    Args:
        most: log-probabilities of each place, at the most.

    Returns:
        A continuation with every place.

    Raises:
        BenchError: an error answer, or one that is not what was asked for.
    """
    found = _ask(server, prompt, length, most, {})
    if len(found.places) == length:
        return found
    # Places are asked for one by one, each with a letter forced as its token: log-probabilities
    # are taken before the bias, and a letter leaves no character unfinished. The slot keeps what
    # it computed, so that each of these adds one token, as decoding does.
    letter = _post(server, "/tokenize", {"content": _LETTER, "add_special": False})
    forced = {"logit_bias": [[read_tokens(letter)[-1], _FORCED]], "cache_prompt": True}
    places: list[Place] = []
    for step in range(length):
        one = _ask(server, [*prompt, *found.tokens[:step]], 1, most, forced)
        if len(one.places) != 1:
            raise BenchError(f"llama.cpp: expected log-probabilities of one place, got {one}")
        places += one.places
    return replace(found, places=tuple(places))


def _ask(
    server: Server, prompt: Sequence[int], length: int, most: int, fields: Mapping[str, Any]
) -> PeerContinuation:
    body = {
        "prompt": list(prompt),
        "n_predict": length,
        "temperature": 0,
        "n_probs": most,
        # Of the model's own distribution, not of what the samplers leave.
        "post_sampling_probs": False,
        "return_tokens": True,
        # A random model may end an answer at any place.
        "ignore_eos": True,
        **server.extra,
        **fields,
    }
    return read_completion(_post(server, "/completion", body), prompt, length)


def _post(server: Server, path: str, body: Mapping[str, Any]) -> bytes:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=_ANSWER_SECONDS)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read(_MAX_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{server.name}: the request failed: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise BenchError(f"{server.name} answered {response.status}: {text[:500]!r}")
    return text


def read_completion(text: bytes, prompt: Sequence[int], length: int) -> PeerContinuation:
    """Read the JSON of a completion with log-probabilities.

    Raises:
        BenchError: it is not of that shape, or not of this prompt and length.
    """
    try:
        answer = json.loads(text)
        prompt_tokens = answer["timings"]["prompt_n"] + answer["timings"]["cache_n"]
        found = PeerContinuation(
            tokens=tuple(int(token) for token in answer["tokens"]),
            places=tuple(_read_place(step) for step in answer["completion_probabilities"]),
            refused=_refused(answer["generation_settings"]["logit_bias"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise BenchError(
            f"llama.cpp: expected a completion with log-probabilities ({error!r}), got "
            f"{text[:200]!r}"
        ) from error
    if prompt_tokens != len(prompt):
        raise BenchError(
            f"llama.cpp: expected a prompt of {len(prompt)} tokens, none added and none left out; "
            f"it says that it had {prompt_tokens}"
        )
    if len(found.tokens) != length or len(found.places) > length:
        raise BenchError(
            f"llama.cpp: expected {length} tokens, got {len(found.tokens)} and "
            f"{len(found.places)} places"
        )
    return found


def read_tokens(text: bytes) -> list[int]:
    """Read the JSON of a tokenised text, which has at least one token.

    Raises:
        BenchError: it is not of that shape.
    """
    try:
        tokens = [int(token) for token in json.loads(text)["tokens"]]
    except (ValueError, LookupError, TypeError) as error:
        raise BenchError(f"llama.cpp: expected tokens ({error!r}), got {text[:200]!r}") from error
    if not tokens:
        raise BenchError("llama.cpp: expected at least one token, got none")
    return tokens


def _read_place(step: Any) -> Place:
    top = step["top_logprobs"]
    ids = np.array([entry["id"] for entry in top], np.int64)
    logprobs = np.array([entry["logprob"] for entry in top], np.float64)
    if not len(top) or not np.isfinite(logprobs).all():
        raise ValueError("a place without log-probabilities, or with one that is no number")
    return Place(ids, logprobs)


def _refused(biases: Any) -> tuple[int, ...]:
    """JSON has no -inf: such a bias comes as null."""
    return tuple(int(entry["token"]) for entry in biases if entry["bias"] is None)


def unpacked(peer: Peer, model: Path, folder: Path) -> Path | None:
    """The same model with all its weights in float32, as llama.cpp itself unpacks them.

    On such a file llama.cpp leaves activations as they are, which it rounds beside packed weights.

    Returns:
        The new file in `folder`; None where it would be too large or there is no llama-quantize
        beside llama-server, which is said on the terminal.

    Raises:
        BenchError: llama-quantize fails.
    """
    program = peer.server.with_name("llama-quantize")
    if not program.is_file():
        print(f"{model.name}: not compared unpacked, {program.name} is missing", flush=True)
        return None
    with GGUFFile(model) as file:
        size = 4 * sum(prod(tensor.shape) for tensor in file.tensors.values())
    if size > min(_MOST_UNPACKED, shutil.disk_usage(folder).free // 2):
        print(f"{model.name}: not compared unpacked, {size / 2**30:.1f} GiB", flush=True)
        return None
    target = folder / "unpacked.gguf"
    command = (str(program), "--allow-requantize", str(model), str(target), "F32", "2")
    log = folder / "quantize.log"
    with running(command, folder, log, os.environ) as process:
        wait_until(lambda: process.poll() == 0, process, log, _UNPACK_SECONDS, lambda waited: None)
    return target
