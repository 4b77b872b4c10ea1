"""Models come and go over a live server: real tiny models, damaged files, streams beside a load.

Reference: `POST /admin/models/load`, `POST /admin/models/unload`, `model` of a completion, both
windows and both concurrency numbers of an operator row. The rows of the error tables are walked
with scripted models in test_admin_models.py; here the files are real.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engine.gguf.huge import huge_model
from tests.golden import DATA, golden_file
from tests.server.models import serve_tiny
from tests.server.process import Server
from tests.server.wire import (
    Answer,
    connect,
    events_of,
    get,
    parse_answer,
    post,
    post_chat,
    read_all,
    stream_request,
)

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

LOAD, UNLOAD = "/admin/models/load", "/admin/models/unload"
FIRST, SECOND = "llama-smollm-f32", "llama-minicpm5-f32"
_PATH = str(golden_file(f"models/{SECOND}.gguf"))
_SMALL = {"ctx_cap": 256, "max_sessions": 1}
_PATIENCE = 300.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One tiny model; room for three."""
    with serve_tiny(",ctx_cap=2048,max_sessions=2", PANTHEON_MAX_MODELS="3") as started:
        yield started


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def _load(server: Server, **options: Any) -> Answer:
    return post(server, LOAD, {"path": _PATH, **_SMALL, **options}, timeout=_PATIENCE)


def _unload(server: Server, name: str) -> Answer:
    return post(server, UNLOAD, {"name": name}, timeout=_PATIENCE)


def _loaded(server: Server, **options: Any) -> Any:
    answer = _load(server, **options)
    assert answer.status == 200, answer.body
    return answer.json()


def _unloaded(server: Server, name: str) -> None:
    answer = _unload(server, name)
    assert (answer.status, answer.json()) == (200, {"unloaded": name})


@contextmanager
def _second(server: Server, **options: Any) -> Iterator[Any]:
    """A loaded second model; its row."""
    row = _loaded(server, **options)
    try:
        yield row
    finally:
        _unloaded(server, row["id"])


def _refused(answer: Answer, status: int, kind: str) -> str:
    assert (answer.status, answer.error_type()) == (status, kind), answer.body
    return str(answer.json()["error"]["message"])


def _names(server: Server, path: str = "/v1/models") -> list[str]:
    return [row["id"] for row in get(server, path).json()["data"]]


def _chat(server: Server, model: str, **fields: Any) -> Answer:
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "model": model}
    return post_chat(server, {**body, **fields}, timeout=60)


def _resident(server: Server) -> int:
    """Bytes of the worker."""
    (worker,) = psutil.Process(server.pid).children()
    return int(worker.memory_info().rss)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_option_and_the_row_that_is_answered(server: Server) -> None:
    options = {
        "path": _PATH,
        "name": "second/one",
        "quantize": False,
        "ctx_cap": 192,
        "max_sessions": 3,
        "max_concurrent": 2,
        "reasoning_budget": 16,
        "dies": None,
    }
    with _second(server, **options) as row:
        assert row["id"] == "second/one"
        assert (row["path"], row["dies"], row["object"]) == (_PATH, [], "model")
        assert (row["max_sessions"], row["max_concurrent"]) == (3, 2)
        assert row["max_concurrent_configured"] == 2
        assert (row["context_window"], row["context_window_configured"]) == (192, 192)
        assert row["vram_bytes"] > Path(_PATH).stat().st_size / 2
        assert row == get(server, "/admin/models").json()["data"][1]
        assert _names(server) == [FIRST, "second/one"]
        answer = _chat(server, "second/one")
        assert (answer.status, answer.json()["model"]) == (200, "second/one")
        assert answer.json()["usage"]["kv_cap"] == 192
        _refused(_chat(server, SECOND), 404, "model_not_found")
    assert _names(server) == [FIRST]
    assert _chat(server, SECOND).json()["model"] == FIRST, "one model takes every name"


def test_defaults_and_a_cap_beyond_the_models_own_window(server: Server) -> None:
    """Scenario, numbers in load: 0 and absent are defaults; the clamp shows."""
    with _second(server, ctx_cap=10**9, max_sessions=0, max_concurrent=1) as row:
        assert row["id"] == SECOND
        assert row["context_window_configured"] == 10**9
        assert row["context_window"] < 10**6
        assert (row["max_sessions"], row["max_concurrent"]) == (8, 1)


def test_int8_at_load_takes_less_memory_and_answers(server: Server) -> None:
    """Reference, `POST /admin/models/load`: `quantize`; `vram_bytes` is what is held."""
    options = {
        "path": str(golden_file("models/llama-smollm-f32.gguf")),
        "name": "second",
        "ctx_cap": 64,
        "max_sessions": 1,
    }
    held = {}
    for quantize in (False, True):
        with _second(server, quantize=quantize, **options) as row:
            held[quantize] = row["vram_bytes"]
            assert _chat(server, "second").status == 200
    # Of 3.7 MB of weights 1.2 MB are left.
    assert held[False] - held[True] > 2_400_000


@pytest.mark.parametrize(
    ("options", "status", "kind"),
    [
        ({"path": None}, 400, "invalid_request_error"),
        ({"path": 1}, 400, "invalid_request_error"),
        ({"ctx_cap": "32k"}, 400, "invalid_request_error"),
        ({"ctx_cap": -1}, 400, "invalid_request_error"),
        ({"dies": list(range(9))}, 400, "invalid_request_error"),
        ({"dies": [0]}, 400, "load_failed"),
        ({"name": FIRST}, 409, "load_failed"),
        ({"path": "/nonexistent.gguf"}, 404, "load_failed"),
        ({"path": "relative.gguf"}, 404, "load_failed"),
        ({"path": "~/model.gguf"}, 404, "load_failed"),
        ({"path": "http://localhost/model.gguf"}, 404, "load_failed"),
        ({"path": "/dev/zero"}, 404, "load_failed"),
        ({"path": "/"}, 404, "load_failed"),
        ({"path": "x" * 10_000}, 404, "load_failed"),
        ({"path": "/etc/passwd"}, 500, "load_failed"),
        ({"path": "/proc/self/environ"}, 500, "load_failed"),
    ],
    ids=str,
)
def test_refused_loads_change_nothing(
    server: Server, options: dict[str, Any], status: int, kind: str
) -> None:
    message = _refused(_load(server, **options), status, kind)
    assert "root:" not in message and "PATH=" not in message and len(message) < 500
    assert _names(server, "/admin/models") == [FIRST]


def test_damaged_files_leave_the_process_alive_and_its_memory_as_it_was(server: Server) -> None:
    """tests/data/README.md, broken; scenario, load failure leaks memory."""
    (worker,) = psutil.Process(server.pid).children()
    damaged = sorted({path.stem for path in (DATA / "broken").glob("*.gguf*")} - {"ok"})
    assert len(damaged) > 20
    resident = []
    for _ in range(3):
        for name in damaged:
            path = str(golden_file(f"broken/{name.removesuffix('.gguf')}.gguf"))
            _refused(_load(server, path=path), 500, "load_failed")
        resident.append(_resident(server))
    assert resident[-1] <= 1.02 * resident[0], resident
    assert psutil.Process(server.pid).children() == [worker]
    assert _names(server) == [FIRST] and _chat(server, FIRST).status == 200


def test_what_does_not_fit_is_refused_before_it_takes_anything(
    server: Server, tmp_path: Path
) -> None:
    """Reference, 507: admission refused; scenario: 20 times too large, then one that fits."""
    path = str(huge_model(tmp_path / "huge.gguf"))
    before = _resident(server)
    for _ in range(20):
        message = _refused(_load(server, path=path, name="big"), 507, "load_failed")
        assert "MB of weights" in message
    assert _resident(server) - before < 50 * 2**20
    with _second(server, name="big"):
        assert _names(server) == [FIRST, "big"]


def test_the_registry_is_full_at_its_stated_maximum(server: Server) -> None:
    with _second(server, name="b"), _second(server, name="c"):
        message = _refused(_load(server, name="d"), 507, "load_failed")
        assert "at most 3 models" in message
        _refused(_load(server, name="b"), 409, "load_failed")
        assert _names(server) == [FIRST, "b", "c"]
        assert all(_chat(server, name).status == 200 for name in (FIRST, "b", "c"))
        _refused(_chat(server, "d"), 404, "model_not_found")


def test_memory_comes_back_with_each_unload(server: Server) -> None:
    """The 20 cycles are counted in tests/engine/test_repeated_loads.py; here a few over HTTP."""
    resident = []
    for _ in range(5):
        with _second(server) as row:
            assert _chat(server, SECOND).status == 200
            held = _resident(server)
        resident.append(_resident(server))
        assert held - resident[-1] > row["vram_bytes"] / 2
    assert resident[-1] <= 1.02 * resident[2], resident


def _stream(server: Server, model: str, tokens: int, times: list[float]) -> bytes:
    """A whole stream; when each piece of it came."""
    request = stream_request(
        "go on", model=model, max_tokens=tokens, temperature=1.5, seed=3, top_k=0, top_p=1
    )
    parts = []
    with connect(server, timeout=_PATIENCE) as sock:
        sock.sendall(request)
        while part := sock.recv(65536):
            times.append(time.monotonic())
            parts.append(part)
    return b"".join(parts)


def _running(stream: Future[bytes], times: list[float]) -> None:
    _until(lambda: len(times) > 3 or stream.done())
    assert not stream.done(), "the stream ended too early to be a test"


def test_an_unload_lets_a_stream_end_and_is_told_once(
    server: Server, pool: ThreadPoolExecutor
) -> None:
    """Scenario, unload during generation."""
    _loaded(server, name="leaving", ctx_cap=0)
    times: list[float] = []
    stream = pool.submit(_stream, server, "leaving", 1500, times)
    _running(stream, times)
    leaving = pool.submit(_unload, server, "leaving")
    _until(lambda: _names(server) == [FIRST])
    if not stream.done():
        _refused(_unload(server, "leaving"), 409, "unload_failed")
        _refused(_load(server, name="leaving"), 409, "load_failed")
        assert _chat(server, "leaving").json()["model"] == FIRST
    *chunks, done = events_of(parse_answer(stream.result(_PATIENCE)).body)
    assert done == "[DONE]"
    assert json.loads(chunks[-1])["choices"][0]["finish_reason"] in ("stop", "length")
    answer = leaving.result(_PATIENCE)
    assert (answer.status, answer.json()) == (200, {"unloaded": "leaving"})
    _refused(_unload(server, "leaving"), 404, "unload_failed")


def test_an_unload_waits_no_longer_than_it_may(pool: ThreadPoolExecutor) -> None:
    """Scenario: a stalled client must not block the drain for ever; its model's memory goes."""
    with serve_tiny(",ctx_cap=8192,max_sessions=1", PANTHEON_UNLOAD_DRAIN_MS="300") as server:
        with connect(server) as sock:
            sock.sendall(stream_request("go on", max_tokens=100_000, temperature=0))
            assert b"200 OK" in sock.recv(4096)
            before = _resident(server)
            (row,) = get(server, "/admin/models").json()["data"]
            _unloaded(server, FIRST)
            assert before - _resident(server) > row["vram_bytes"] / 2
            _refused(_chat(server, FIRST), 503, "no_models_loaded")
            assert _names(server) == []
            assert read_all(sock).endswith(b"0\r\n\r\n"), "the stream is ended, not cut"
        assert _loaded(server, name="again")["id"] == "again"
        assert _chat(server, "any").status == 200


def test_other_routes_and_models_answer_while_a_model_loads(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """Scenario, other routes during a load; reference: one upload at a time. Every program is
    compiled here. The numbers are generous: what a stream really keeps was measured by hand."""
    cache = {"PANTHEON_COMPILE_CACHE_DIR": str(tmp_path)}
    with serve_tiny(",ctx_cap=8192,max_sessions=1", **cache) as server:
        times: list[float] = []
        stop = threading.Event()

        def streams() -> None:
            while not stop.is_set():
                _stream(server, FIRST, 400, times)

        streaming = pool.submit(streams)
        _until(lambda: len(times) > 20)
        began = time.monotonic()
        loads = [pool.submit(_load, server, name="b", ctx_cap=320)]
        time.sleep(0.5)
        loads.append(pool.submit(_load, server, name="c", ctx_cap=320))
        time.sleep(0.5)
        answered = 0
        while not loads[1].done():
            assert get(server, "/").status == 200
            assert _names(server)[0] == FIRST
            if not loads[0].done():
                # The second waits for its turn, and its name is taken all the same.
                _refused(_load(server, name="c"), 409, "load_failed")
                _refused(_unload(server, "c"), 404, "unload_failed")
                answered += 1
            time.sleep(0.1)
        ended = time.monotonic()
        stop.set()
        streaming.result(_PATIENCE)
        assert [load.result().status for load in loads] == [200, 200]
        assert answered > 3
        assert _names(server) == [FIRST, "b", "c"]
        during = [at for at in times if began <= at <= ended]
        gaps = [after - before for before, after in pairwise(during)]
        assert max(gaps) < 5, f"a gap of {max(gaps):.1f} s in a load of {ended - began:.1f} s"
