"""Answers decoded with drafts from their conversation, beside plain decoding of the same."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.comparison import Comparison
from bench.comparison import table as rates_table
from bench.errors import BenchError
from bench.prompts import Prompts
from bench.tools import TOOLS
from pantheon.engine.completion import EventStream
from pantheon.engine.config import EngineConfig, ModelOptions, Speculation
from pantheon.engine.drafting import DraftCount
from pantheon.engine.events import Finished
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance
from pantheon.engine.requests import CompletionRequest, Sampling, ToolUse

_WAIT_S: Final = 600.0
_ANSWER_TOKENS: Final = 200
_GREEDY: Final = Sampling(temperature=0.0)
_CODE: Final = """\
def read_settings(path):
    settings = {}
    with open(path) as lines:
        for number, line in enumerate(lines, start=1):
            name, separator, value = line.partition("=")
            if not separator:
                raise ValueError(f"{path}, line {number}: expected name=value")
            settings[name.strip()] = value.strip()
    return settings


def write_settings(path, settings):
    with open(path, "w") as output:
        for name, value in sorted(settings.items()):
            output.write(f"{name}={value}\\n")
"""


@dataclass(frozen=True, slots=True)
class Drafted:
    """One workload.

    Attributes:
        rates: tokens per second of all answers, drafted beside plain.
        drafts: how many drafts were right.
    """

    rates: Comparison
    drafts: DraftCount

    def record(self) -> dict[str, Any]:
        """The workload as JSON."""
        return {**self.rates.record(), "right": self.drafts.right, "drafted": self.drafts.drafted}


def compare_speculation(model: Path, rounds: int) -> tuple[Drafted, ...]:
    """Greedy answers to the same requests, with drafts and without, in turn.

    Raises:
        BenchError: an answer with drafts is another one.
    """
    plain, drafting = (
        load_instance(
            ModelOptions(path=model, name="bench", ctx_cap=4096, max_sessions=8),
            EngineConfig(models=(), backend="cpu", build="bench", speculation=speculation),
        )
        for speculation in (Speculation.NEVER, Speculation.ALWAYS)
    )
    try:
        return tuple(
            _compare(name, request, rows, plain, drafting, rounds)
            for name, request, rows in _workloads()
        )
    finally:
        plain.close()
        drafting.close()


def _workloads() -> list[tuple[str, CompletionRequest, int]]:
    edit = _request(
        [
            {
                "role": "user",
                "content": f"Here is settings.py:\n\n```python\n{_CODE}```\n\nRename the "
                "variable `settings` to `options` and write the whole file again.",
            }
        ]
    )
    call = _request(
        [
            {"role": "user", "content": "Edit settings.py: sort by value, not by name."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"filePath":"settings.py"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": _CODE},
        ],
        ToolUse(TOOLS, required=True),
    )
    prose = _request([{"role": "user", "content": Prompts(seed=3).words(60)}])
    return [
        ("code edit, 1 row", edit, 1),
        ("code edit, 4 rows", edit, 4),
        ("tool call, 1 row", call, 1),
        ("tool call, 4 rows", call, 4),
        ("nothing that comes again, 1 row", prose, 1),
    ]


def _request(
    messages: list[Mapping[str, Any]], tool_use: ToolUse | None = None
) -> CompletionRequest:
    return CompletionRequest(
        None,
        tuple(messages),
        max_tokens=_ANSWER_TOKENS,
        sampling=_GREEDY,
        enable_thinking=False,
        tool_use=tool_use,
    )


def _compare(
    name: str,
    request: CompletionRequest,
    rows: int,
    plain: ModelInstance,
    drafting: ModelInstance,
    rounds: int,
) -> Drafted:
    ours, theirs = [], []
    before = drafting.drafts
    for _ in range(rounds):
        text, rate = _answers(plain, request, rows)
        theirs.append(rate)
        same, rate = _answers(drafting, request, rows)
        ours.append(rate)
        if same != text:
            raise BenchError(f"{name}: an answer with drafts must be the plain one")
    rates = Comparison(name, tuple(ours), tuple(theirs))
    return Drafted(rates, drafting.drafts - before)


def _answers(model: ModelInstance, request: CompletionRequest, rows: int) -> tuple[str, float]:
    """The same request so often at once: its answer, and tokens per second of all together."""
    streams = [model.submit(request) for _ in range(rows)]
    began: float | None = None
    answers: list[str] = []
    tokens = 0
    for stream in streams:
        parts: list[str] = []
        end: Finished | None = None
        while end is None:
            event = _next(stream)
            began = time.perf_counter() if began is None else began
            if isinstance(event, Finished):
                end = event
            else:
                parts.append(repr(getattr(event, "text", type(event).__name__)))
        tokens += end.usage.completion_tokens
        answers.append("".join(parts))
    assert began is not None, "an answer has at least its end"
    if len(set(answers)) > 1:
        raise BenchError("the same request must have the same answer in every row")
    return answers[0], tokens / (time.perf_counter() - began)


def _next(stream: EventStream) -> object:
    event = stream.next_event(_WAIT_S)
    if event is None:
        raise BenchError(f"an answer must go on within {_WAIT_S:g} s")
    return event


def table(found: Sequence[Drafted]) -> str:
    """The rates, and how many of the drafted tokens were right."""
    lines = [rates_table([one.rates for one in found], "workload", "plain", "tok/s"), ""]
    lines += [f"{one.rates.name}: {one.drafts}" for one in found]
    return "\n".join(lines)
