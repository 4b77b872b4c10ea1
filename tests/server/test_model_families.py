"""Every model family through the real server: loaded, asked, continued, moved and unloaded.

Numbers are held to the reference data by the tests of the engine; here is what a client sees of
each architecture (reference: chat completions, session routes, operator rows), and what a load
that cannot be says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import psutil
import pytest

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import ChatTokenizer, Tokenizer, Vocabulary
from tests.golden import golden_file
from tests.server.held_weights import held_bytes
from tests.server.models import serve_tiny
from tests.server.process import Server
from tests.server.wire import Answer, events_of, get, post, post_chat

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_FAMILIES = {
    "llama-mistral": "models/llama-mistral-f32.gguf",
    "phi3": "models/phi3-f32.gguf",
    "qwen2": "models/qwen2-f32.gguf",
    "qwen3": "models/qwen3-f32.gguf",
    "qwen3moe": "models/qwen3moe-f32.gguf",
    "qwen3next": "models/qwen3next-f32.gguf",
    "qwen35": "models/qwen35-f32.gguf",
    "qwen35-mtp": "models/qwen35-mtp-f32.gguf",
    "qwen35moe": "models/qwen35moe-f32.gguf",
    "packed": "quant/qwen35moe-q-Q4_K_M.gguf",
}
_ARCHITECTURES = (
    "llama", "phi3", "qwen2", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe",
)  # fmt: skip
_FIRST = "llama-smollm-f32"
_WINDOW, _SESSIONS, _PAGE, _GRID = 512, 2, 64, 64
_CHECKPOINTS = 8 * _SESSIONS
_PATIENCE = 300.0
_SYSTEM = {"role": "system", "content": "Answer in the language of the question. " * 4}
_QUESTION = {"role": "user", "content": "What is the capital of France, and how far is the sea?"}
_ASKED = [_SYSTEM, _QUESTION]
_NEXT = {"role": "user", "content": "And of Portugal?"}


@dataclass(frozen=True)
class _Family:
    """A loaded model and what its file says."""

    name: str
    file: Path
    row: dict[str, Any]
    tokenizer: ChatTokenizer

    def prompt(self, messages: list[dict[str, str]], **variables: bool) -> list[int]:
        return self.tokenizer.encode_chat(messages, template_kwargs=variables).ids


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_tiny(",ctx_cap=256,max_sessions=1") as started:
        yield started


@pytest.fixture(scope="module", params=_FAMILIES)
def family(server: Server, request: pytest.FixtureRequest) -> Iterator[_Family]:
    """Each family in turn, beside the llama that the server began with."""
    file = golden_file(_FAMILIES[request.param])
    answer = _load(server, file, request.param)
    assert answer.status == 200, answer.body
    with GGUFFile(file) as opened:
        tokenizer = ChatTokenizer(
            Tokenizer(Vocabulary.from_metadata(opened.metadata)),
            opened.metadata.optional_string("tokenizer.chat_template"),
        )
    yield _Family(request.param, file, answer.json(), tokenizer)
    _unload(server, request.param)
    assert _names(server) == [_FIRST]


def _load(server: Server, file: Path, name: str) -> Answer:
    options = {"ctx_cap": _WINDOW, "max_sessions": _SESSIONS}
    body = {"path": str(file), "name": name, **options}
    return post(server, "/admin/models/load", body, timeout=_PATIENCE)


def _unload(server: Server, name: str) -> None:
    answer = post(server, "/admin/models/unload", {"name": name}, timeout=60)
    assert (answer.status, answer.json()) == (200, {"unloaded": name})


def _names(server: Server) -> list[str]:
    return [row["id"] for row in get(server, "/v1/models").json()["data"]]


def _body(family: _Family, messages: list[dict[str, str]], **fields: Any) -> dict[str, Any]:
    greedy = {"model": family.name, "temperature": 0, "max_tokens": 12}
    return {"messages": messages, **greedy, **fields}


def _chat(server: Server, family: _Family, messages: list[dict[str, str]], **fields: Any) -> Any:
    answer = post_chat(server, _body(family, messages, **fields), timeout=60)
    assert answer.status == 200, answer.body
    return answer.json()


def _said(message: dict[str, Any]) -> tuple[str, str]:
    return message.get("reasoning_content") or "", message.get("content") or ""


def _cached(body: Any) -> int:
    return int(body["usage"]["prompt_tokens_details"]["cached_tokens"])


def _resident(server: Server) -> int:
    (worker,) = psutil.Process(server.pid).children()
    return int(worker.memory_info().rss)


def test_a_packed_model_gives_its_memory_back(server: Server) -> None:
    file = golden_file(_FAMILIES["packed"])
    gone = []
    # The first load compiles, which leaves more behind than later ones.
    for _ in range(3):
        answer = _load(server, file, "again")
        assert answer.status == 200, answer.body
        held = _resident(server)
        _unload(server, "again")
        assert held - _resident(server) > answer.json()["vram_bytes"] / 2
        gone.append(_resident(server))
    assert gone[-1] <= 1.02 * gone[1], gone


def test_an_unknown_architecture_is_refused_with_its_name_and_the_known_ones(
    server: Server,
) -> None:
    """Reference, `load_failed`: other load failure."""
    answer = _load(server, golden_file("broken/unknown_arch.gguf"), "unknown")
    assert (answer.status, answer.error_type()) == (500, "load_failed")
    message = answer.json()["error"]["message"]
    assert "'zlama'" in message and ", ".join(_ARCHITECTURES) in message
    assert _names(server) == [_FIRST]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("missing_tensor", "is missing"),
        ("truncated_data", "is truncated"),
        ("wrong_shape", "shape"),
    ],
)
def test_a_damaged_file_is_refused_and_the_server_lives_on(
    server: Server, damage: str, named: str
) -> None:
    """tests/data/README.md, broken: the message says what is wrong."""
    answer = _load(server, golden_file(f"broken/{damage}.gguf"), "damaged")
    assert (answer.status, answer.error_type()) == (500, "load_failed")
    assert named in answer.json()["error"]["message"]
    assert _names(server) == [_FIRST]
    alive = post_chat(server, {"messages": [_QUESTION], "model": "any", "max_tokens": 2})
    assert (alive.status, alive.json()["model"]) == (200, _FIRST)


def test_it_is_listed_with_what_is_really_held(server: Server, family: _Family) -> None:
    """Reference, `vram_bytes`: the weights as the file packs them, in whole blocks of rows (blocks
    that predict further tokens are left out), keys and values of a window a session in float16,
    the states of recurrent layers, and the newest token, counts and biases of the rows."""
    assert _names(server) == [_FIRST, family.name]
    row = family.row
    assert row == get(server, "/admin/models").json()["data"][1]
    assert (row["path"], row["max_sessions"], row["max_concurrent"]) == (str(family.file), 2, 2)
    assert row["context_window"] == row["context_window_configured"] == _WINDOW
    shape = _Shape(family.file)
    tokens = _SESSIONS * _WINDOW
    states = (_SESSIONS + 1 + _CHECKPOINTS) * shape.recurrent_layers * shape.state_values
    rows = (_SESSIONS + 1) * (1 + 2 * shape.vocabulary)
    cache = tokens * shape.attention_layers * shape.kv_values
    held = 2 * cache + 4 * (states + rows + shape.rotary_pairs)
    assert row["vram_bytes"] == shape.tensor_bytes + held


class _Shape:
    """What the metadata and the tensor table say, read by the gguf package."""

    def __init__(self, path: Path) -> None:
        self._reader = gguf.GGUFReader(path)
        architecture = self._reader.fields["general.architecture"].contents()

        def of(key: str, default: Any = 0) -> Any:
            field = self._reader.get_field(f"{architecture}.{key}")
            return default if field is None else field.contents()

        layers = of("block_count") - of("nextn_predict_layers")
        kinds = of("attention.recurrent_layers", None)
        interval = of("full_attention_interval", 1)
        if kinds is None:
            kinds = [(index + 1) % interval != 0 for index in range(layers)]
        self.recurrent_layers = sum(kinds[:layers])
        self.attention_layers = layers - self.recurrent_layers
        heads = of("attention.head_count")
        head_dim = of("attention.key_length", of("embedding_length") // heads)
        self.kv_values = 2 * of("attention.head_count_kv", heads) * head_dim
        keys, inner = of("ssm.group_count") * of("ssm.state_size"), of("ssm.inner_size")
        before = (of("ssm.conv_kernel") - 1) * (2 * keys + inner)
        self.state_values = before + of("ssm.state_size") * inner
        self.rotary_pairs = of("rope.dimension_count", head_dim) // 2
        tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.vocabulary = int(tensors["token_embd.weight"].shape[1])
        self.tensor_bytes = sum(
            held_bytes(tensor)
            for name, tensor in tensors.items()
            if not (name.startswith("blk.") and int(name.split(".")[1]) >= layers)
        )


def test_an_answer_counts_its_tokens(server: Server, family: _Family) -> None:
    """Reference, `usage` and `logprobs`: an entry a token, whose bytes are the answer's."""
    answer = _chat(server, family, _ASKED, logprobs=True, top_logprobs=2, enable_thinking=False)
    assert answer["model"] == family.name
    (choice,) = answer["choices"]
    usage, entries = answer["usage"], choice["logprobs"]["content"]
    assert usage["prompt_tokens"] == len(family.prompt(_ASKED, enable_thinking=False))
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["kv_cap"] == _WINDOW and usage["kv_used"] == usage["total_tokens"] - 1
    if choice["finish_reason"] == "length":
        assert usage["completion_tokens"] == 12
    else:
        assert choice["finish_reason"] == "stop" and usage["completion_tokens"] <= 12
    assert 1 <= len(entries) <= usage["completion_tokens"]
    for entry in entries:
        best = [one["logprob"] for one in entry["top_logprobs"]]
        assert all(math.isfinite(value) and value <= 0 for value in best)
        assert entry["logprob"] == best[0] > best[1], "greedy"
    assert any(_said(choice["message"]))


def test_a_stream_joins_to_the_answer(server: Server, family: _Family) -> None:
    plain = _chat(server, family, _ASKED)
    body = _body(family, _ASKED, stream=True, stream_options={"include_usage": True})
    answer = post_chat(server, body, timeout=60)
    assert answer.status == 200
    *events, done = events_of(answer.body)
    assert done == "[DONE]"
    *chunks, last = (json.loads(event) for event in events)
    parts = [_said(chunk["choices"][0]["delta"]) for chunk in chunks]
    joined = tuple("".join(part) for part in zip(*parts, strict=True))
    (choice,) = plain["choices"]
    assert joined == _said(choice["message"])
    assert chunks[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
    for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert last["usage"][key] == plain["usage"][key]


def test_a_session_goes_on_here_and_where_it_is_restored(server: Server, family: _Family) -> None:
    """Reference, session routes; scenarios 154 and 162: a turn recomputes what is new, and of a
    model with recurrent layers at most 64 tokens beside it. The answer is sent back changed, so
    that both sessions get the same prompt: the last token of an answer is not part of a blob."""
    prompt = family.prompt(_ASKED)
    first = _chat(server, family, _ASKED, session_id="here")
    assert _cached(first) == 0
    export = _export(server, family)
    assert export["tokens"][: len(prompt)] == prompt
    assert export["n_tok"] == first["usage"]["kv_used"] == len(export["tokens"])
    moved = {"session_id": "there", "blob": export["blob_b64"], "tokens": export["tokens"]}
    restored = post(server, "/session/restore", {"name": family.name, **moved}, timeout=60)
    assert restored.status == 200, restored.body
    assert restored.json()["n_tok"] == export["n_tok"]

    changed = [*_ASKED, {"role": "assistant", "content": "Paris, and 200 km."}, _NEXT]
    least = _shared(prompt, family.prompt(changed))
    assert least > _GRID
    if _Shape(family.file).recurrent_layers:
        least -= _GRID
    here, there, cold = (
        _chat(server, family, changed, **session)
        for session in ({"session_id": "here"}, {"session_id": "there"}, {})
    )
    assert least <= _cached(here) < here["usage"]["prompt_tokens"]
    assert _cached(there) == _cached(here) and _cached(cold) == 0
    assert there["choices"] == here["choices"] == cold["choices"]

    said = {key: value for key, value in first["choices"][0]["message"].items() if value}
    unchanged = _chat(server, family, [*_ASKED, said, _NEXT], session_id="here")
    assert _cached(unchanged) >= least
    for session in ("here", "there"):
        body = {"name": family.name, "session_id": session}
        assert post(server, "/session/release", body).status == 200


def _export(server: Server, family: _Family) -> Any:
    body = {"name": family.name, "session_id": "here"}
    answer = post(server, "/admin/session/export", body, timeout=60)
    assert answer.status == 200, answer.body
    return answer.json()


def _shared(first: list[int], second: list[int]) -> int:
    """Tokens at which two prompts begin alike."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
