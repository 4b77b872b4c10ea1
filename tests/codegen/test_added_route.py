"""Adding a route is: edit the YAML, generate, implement one method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


def test_added_operation_is_abstract_until_implemented(generated: Any) -> None:
    assert "echo" in generated.operations.Operations.__abstractmethods__
    with pytest.raises(TypeError, match="abstract"):
        generated.operations.Operations()


def test_added_route_parses_calls_and_renders(generated: Any, serve: Callable[..., Any]) -> None:
    models, ops = generated.models, generated.operations

    def echo(request: Any) -> Any:
        text = request.body.text * request.body.times
        return ops.Echo201Json(models.Echo(text=text), x_count=request.body.times)

    client = serve(echo=echo)
    answer = client.simulate_put("/v1/echo", body='{"text": "ab", "times": null, "more": 1}')
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-count"] == "2"
    assert "x-note" not in answer.headers
    assert answer.json == {"text": "abab"}


def test_declared_optional_header_is_sent_when_given(
    generated: Any, serve: Callable[..., Any]
) -> None:
    def echo(request: Any) -> Any:
        body = generated.models.Echo(text="")
        return generated.operations.Echo201Json(body, x_count=0, x_note="note")

    answer = serve(echo=echo).simulate_put("/v1/echo", body='{"text": ""}')
    assert answer.headers["x-note"] == "note"


def test_response_of_another_operation_is_refused(
    generated: Any, serve: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """One response type per status: an operation cannot answer with one that is not its own."""

    def echo(request: Any) -> Any:
        body = generated.models.ModelUnloaded(unloaded="m")
        return generated.operations.UnloadModel200Json(body)

    answer = serve(echo=echo).simulate_put("/v1/echo", body='{"text": ""}')
    assert answer.status_code == 500
    assert "unreachable" in capsys.readouterr().err


def test_retry_after_is_a_header_of_the_responses_that_declare_it(
    generated: Any, serve: Callable[..., Any]
) -> None:
    models, ops = generated.models, generated.operations
    error = models.Error(error=models.ErrorDetail(message="busy", type="server_busy"))
    client = serve(
        create_chat_completion=lambda request: ops.CreateChatCompletion429Json(
            error, retry_after=30 if request.body.stream else None
        )
    )
    messages = '"messages": [{"content": "hi"}]'
    answer = client.simulate_post("/v1/chat/completions", body=f'{{{messages}, "stream": true}}')
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "30")
    # The order of members and the null code are those of the reference's "Error body format".
    assert answer.text == '{"error":{"message":"busy","type":"server_busy","code":null}}'
    answer = client.simulate_post("/v1/chat/completions", body=f"{{{messages}}}")
    assert "retry-after" not in answer.headers


def test_session_header_is_read_as_utf_8(generated: Any, serve: Callable[..., Any]) -> None:
    """WSGI hands the bytes over as Latin-1; a body's session id would be the text itself."""
    seen: list[object] = []

    def release(request: Any) -> Any:
        seen.append(request.x_session_id)
        body = generated.models.SessionReleased(session_id="s")
        return generated.operations.ReleaseSession200Json(body)

    client = serve(release_session=release)
    for headers in ({"X-Session-Id": "é".encode().decode("latin-1")}, {}):
        answer = client.simulate_post("/session/release", body="{}", headers=headers)
        assert answer.text == '{"released":true,"session_id":"s"}'
    assert seen == ["é", None]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tokens=4096", (4096, None, None, None)),
        ("tokens=4096&name=m&blob_bytes=5&upload_bps=2.5", (4096, "m", 5, 2.5)),
        ("tokens=1&tokens=2", (2, None, None, None)),
        ("tokens=" + "9" * 30, (int("9" * 30), None, None, None)),
        ("tokens=1&blob_bytes=-5&upload_bps=0", (1, None, None, None)),
        ("tokens=1&blob_bytes=x&upload_bps=nan", (1, None, None, None)),
        ("tokens=1&blob_bytes=1&blob_bytes=2&upload_bps=1e400", (1, None, 2, None)),
        ("tokens=1&blob_bytes=0&upload_bps=-1", (1, None, None, None)),
        ("tokens=1&blob_bytes=&upload_bps=inf", (1, None, None, None)),
        ("tokens=1&upload_bps=1e3", (1, None, None, 1000.0)),
        ("", None),
        ("tokens=", None),
        ("tokens=0", None),
        ("tokens=-1", None),
        ("tokens=abc", None),
        ("tokens=1e3", None),
        ("tokens=1.0", None),
        ("tokens=NaN", None),
        ("tokens=1_000", None),
        ("tokens=%D9%A3", None),
        ("tokens=" + "9" * 4301, None),
    ],
)
def test_estimate_refuses_tokens_alone(
    generated: Any,
    serve: Callable[..., Any],
    query: str,
    expected: tuple[object, ...] | None,
) -> None:
    """Reference, GET /session/estimate: 400 when `tokens` is missing or not positive; no other."""
    seen: list[object] = []

    def estimate(request: Any) -> Any:
        seen.append((request.tokens, request.name, request.blob_bytes, request.upload_bps))
        body = generated.models.SessionEstimate(
            model="",
            tokens=request.tokens,
            prefill_tok_per_s=17.0,
            cold_reprefill_s=1.0,
            warm_restore_s=1.0,
            blob_bytes_est=1,
        )
        return generated.operations.EstimateSession200Json(body)

    answer = serve(estimate_session=estimate).simulate_get("/session/estimate", query_string=query)
    assert answer.status_code == (400 if expected is None else 200)
    assert seen == ([] if expected is None else [expected])


class Pieces:
    """A body in two pieces."""

    length = 7

    def __iter__(self) -> Iterator[bytes]:
        yield b'{"a":'
        yield b"1}"


def test_body_in_pieces_is_sent_with_its_length(generated: Any, serve: Callable[..., Any]) -> None:
    client = serve(export_session=lambda _: generated.operations.ExportSession200Json(Pieces()))
    answer = client.simulate_post("/admin/session/export", body='{"session_id": "s"}')
    assert answer.json == {"a": 1}
    assert answer.headers["content-length"] == "7"
    assert answer.headers["content-type"] == "application/json"


def test_operation_says_how_large_its_bodies_may_be(
    generated: Any, serve: Callable[..., Any]
) -> None:
    """`x-pantheon-own-body-limit`; the other operations have no such method."""
    seen: list[object] = []

    def restore(request: Any) -> Any:
        # Where the runtime of these tests shows the limit that it was given.
        seen.append(request.body.name)
        body = generated.models.SessionRestored(session_id="s", n_tok=0)
        return generated.operations.RestoreSession200Json(body)

    client = serve(restore_session=restore, restore_session_body_limit=lambda: 12345)
    answer = client.simulate_post("/session/restore", body='{"blob": "", "tokens": []}')
    assert (answer.status_code, seen) == (200, ["12345"])
    methods = generated.operations.Operations.__abstractmethods__
    assert [name for name in methods if name.endswith("_body_limit")] == [
        "restore_session_body_limit"
    ]


@pytest.mark.parametrize("length", [512, 513])
def test_parameters_have_a_greatest_length(
    generated: Any, serve: Callable[..., Any], length: int
) -> None:
    """In characters: a header's bytes are UTF-8."""

    def watch(_request: Any) -> Any:
        return generated.operations.WatchSession200EventStream(iter(()))

    client = serve(watch_session=watch)
    header = ("é" * length).encode().decode("latin-1")
    answers = [
        client.simulate_get("/session/watch", query_string=f"session_id={'x' * length}"),
        client.simulate_get("/session/watch", headers={"X-Session-Id": header}),
    ]
    assert [answer.status_code for answer in answers] == [200 if length == 512 else 400] * 2


class Events:
    """One comment, and whether the stream was closed."""

    def __init__(self, comment: object) -> None:
        self.left = [comment]
        self.closed = 0

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> object:
        if not self.left:
            raise StopIteration
        return self.left.pop()

    def close(self) -> None:
        self.closed += 1


def test_head_of_a_stream_has_no_body_and_closes_the_events(
    generated: Any, serve: Callable[..., Any]
) -> None:
    """HEAD answers as GET without a body, and holds nothing."""
    heads: list[bool] = []
    streams: list[Events] = []

    def watch(request: Any) -> Any:
        heads.append(request.head)
        streams.append(Events(generated.operations.SseComment("watch established")))
        return generated.operations.WatchSession200EventStream(streams[-1])

    client = serve(watch_session=watch)
    answer = client.simulate_head("/session/watch", query_string="session_id=s")
    assert (answer.status_code, answer.text) == (200, "")
    assert answer.headers["content-type"] == "text/event-stream"
    assert streams[0].closed == 1
    answer = client.simulate_get("/session/watch", query_string="session_id=s")
    assert "watch established" in answer.text
    assert heads == [True, False]


def test_head_answers_as_get_without_a_body(generated: Any, serve: Callable[..., Any]) -> None:
    models, ops = generated.models, generated.operations
    body = models.DieList(n_dies=0, data=[])
    client = serve(list_dies=lambda request: ops.ListDies200Json(body))
    got, head = client.simulate_get("/admin/dies"), client.simulate_head("/admin/dies")
    assert got.text == '{"object":"list","n_dies":0,"data":[]}'
    assert (head.status_code, head.text) == (200, "")
    assert head.headers["content-length"] == str(len(got.content))


def test_load_answers_either_of_its_bodies(generated: Any, serve: Callable[..., Any]) -> None:
    """Reference, POST /admin/models/load: a row, or only its status."""
    models, ops = generated.models, generated.operations
    row = models.ModelInstance(
        id="m",
        path="m.gguf",
        dies=[],
        vram_bytes=1,
        max_sessions=8,
        max_concurrent=8,
        max_concurrent_configured=8,
    )
    answers = [models.ModelLoadedStatus(), row]
    client = serve(load_model=lambda request: ops.LoadModel200Json(answers.pop()))
    body = '{"path": "m.gguf"}'
    assert client.simulate_post("/admin/models/load", body=body).json == {
        "id": "m",
        "object": "model",
        "path": "m.gguf",
        "dies": [],
        "vram_bytes": 1,
        "max_sessions": 8,
        "max_concurrent": 8,
        "max_concurrent_configured": 8,
    }
    assert client.simulate_post("/admin/models/load", body=body).text == '{"status":"loaded"}'


def test_request_schemas_name_the_body_of_every_post(generated: Any) -> None:
    names = {
        operation_id: pointer.rsplit("/", 1)[1]
        for operation_id, pointer in generated.routes.REQUEST_SCHEMAS.items()
    }
    assert names == {
        "create_chat_completion": "ChatCompletionParams",
        "load_model": "LoadModelParams",
        "unload_model": "UnloadModelParams",
        "export_session": "SessionExportParams",
        "restore_session": "SessionRestoreParams",
        "release_session": "SessionReleaseParams",
        "echo": "EchoParams",
    }
