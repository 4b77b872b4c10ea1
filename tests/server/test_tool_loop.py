"""An agent over real models: a call, its result, an answer (reference, Tool calling)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import Vocabulary
from tests.engine.model.chain_model import chain_model
from tests.engine.model.rewritten import rewritten
from tests.golden import golden_file, smollm2_file
from tests.server.models import serve
from tests.server.process import Server
from tests.server.wire import (
    CHAT,
    connect,
    events_of,
    get,
    parse_answer,
    post_chat,
    read_all,
    request_bytes,
)

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

_GRID = 64
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Write a file.",
            "parameters": {
                "type": "object",
                "properties": {
                    # Short: a model without sense would fill a string to the limit.
                    "path": {"enum": ["/tmp/a b.txt", "/tmp/ü.txt"]},
                    "mode": {"type": "integer", "minimum": 0, "maximum": 511},
                    "overwrite": {"type": "boolean"},
                },
                "required": ["path", "mode"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "sing", "parameters": {"type": "object", "properties": {}}},
    },
]
_SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in _TOOLS}


@dataclass(frozen=True)
class _Model:
    server: Server
    recurrent: bool
    compelled: bool

    def ask(self, messages: list[Any], **fields: Any) -> Any:
        body = {"messages": messages, "tools": _TOOLS, "enable_thinking": False, **fields}
        body = {"max_tokens": 300, "temperature": 0.8, "seed": 3, **body}
        answer = post_chat(self.server, body, timeout=120)
        assert answer.status == 200, answer
        return answer.json()

    def stream(self, messages: list[Any], **fields: Any) -> list[Any]:
        body = {"messages": messages, "tools": _TOOLS, "enable_thinking": False, **fields}
        body = {"max_tokens": 300, "temperature": 0.8, "seed": 3, "stream": True, **body}
        with connect(self.server, timeout=120) as sock:
            sock.sendall(
                request_bytes("POST", CHAT, json.dumps(body).encode(), "Connection: close")
            )
            *events, done = events_of(parse_answer(read_all(sock)).body)
        assert done == "[DONE]"
        return [json.loads(event) for event in events]


def _calling_model(folder: Path) -> Path:
    """The dialect of MiniCPM has no grammar: a model that sings when it is to go on after a line.

    It writes quotes that the dialect's own rendering does not, so that only its own text continues
    what it has computed. Its template opens no think block, which MiniCPM5's own writes for an
    answer and leaves out of the next prompt where it is empty.
    """
    source = golden_file("models/llama-minicpm5-f32.gguf")
    with GGUFFile(source) as file:
        tokens = Vocabulary.from_metadata(file.metadata).tokens
        template = file.metadata.string("tokenizer.chat_template")
    plain = template.replace("enable_thinking is defined", "false")
    assert plain != template
    call = ["<function", "Ġname", "=", "'s", "ing", "'", ">", "</function>", "<|im_end|>"]
    chain = {tokens.index("Ċ"): [tokens.index(token) for token in call]}
    calling = chain_model(source, folder / "calling.gguf", chain)
    return rewritten(calling, folder / "plain.gguf", metadata={"tokenizer.chat_template": plain})


@pytest.fixture(scope="module", params=["qwen35", "ornith", "minicpm5", "smollm2"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Model]:
    path = {
        "qwen35": lambda: golden_file("models/qwen35-f32.gguf"),
        "ornith": lambda: golden_file("models/qwen35-f32.gguf"),
        "minicpm5": lambda: _calling_model(tmp_path_factory.mktemp("models")),
        "smollm2": smollm2_file,
    }[request.param]()
    with serve(f"path={path},name={request.param},ctx_cap=2048,max_sessions=2") as server:
        yield _Model(server, request.param in ("qwen35", "ornith"), request.param != "minicpm5")


def _check_call(call: Any) -> None:
    assert call["type"] == "function"
    schema = _SCHEMAS[call["function"]["name"]]
    jsonschema.validate(json.loads(call["function"]["arguments"]), schema)


def test_a_call_its_result_and_an_answer(model: _Model) -> None:
    """The second prompt continues the tokens of the first and of its answer: the cache holds."""
    messages: list[Any] = [
        {"role": "system", "content": "You work on files."},
        {"role": "user", "content": "Write a file."},
    ]
    for turn in range(2):
        made = model.ask(messages, tool_choice="required", session_id="loop", seed=turn)
        choice = made["choices"][0]
        assert choice["finish_reason"] == "tool_calls", choice
        assert "tool_call_error" not in choice
        (call,) = choice["message"]["tool_calls"]
        _check_call(call)
        messages += [
            choice["message"],
            {"role": "tool", "tool_call_id": call["id"], "content": "done"},
        ]
        answer = model.ask(messages, session_id="loop", max_tokens=5)
        held = made["usage"]["prompt_tokens"] + made["usage"]["completion_tokens"] - 1
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        # The end of the turn is written by the template, whatever ended the answer.
        assert cached >= held - 1 - _GRID * model.recurrent, (cached, held)
        messages += [answer["choices"][0]["message"], {"role": "user", "content": "Once more."}]


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_stream_brings_the_same_call(model: _Model, seed: int) -> None:
    messages = [{"role": "user", "content": "Write a file."}]
    (call,) = model.ask(messages, tool_choice="required", seed=seed)["choices"][0]["message"][
        "tool_calls"
    ]
    chunks = model.stream(messages, tool_choice="required", seed=seed)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    parts = [
        part for chunk in chunks for part in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert {part["index"] for part in parts} == {0}
    assert parts[0]["function"] == {"name": call["function"]["name"], "arguments": ""}
    assert parts[0]["id"] and parts[0]["type"] == "function"
    joined = "".join(part["function"]["arguments"] for part in parts)
    assert joined == call["function"]["arguments"]
    assert not any(chunk["choices"][0]["delta"].get("content") for chunk in chunks)


def test_whether_a_call_can_be_compelled_is_advertised(model: _Model) -> None:
    """Reference, `tool_choice_required_with_thinking`: false for MiniCPM's dialect."""
    (row,) = get(model.server, "/v1/models").json()["data"]
    assert row["tool_choice_required_with_thinking"] is model.compelled


def test_without_a_choice_the_answer_is_free(model: _Model) -> None:
    messages = [{"role": "user", "content": "Hello."}]
    choice = model.ask(messages, tool_choice="auto", max_tokens=3)["choices"][0]
    assert choice["finish_reason"] in ("length", "stop")
    assert "tool_calls" not in choice["message"]
