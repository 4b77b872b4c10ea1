"""Every bad body is a 400-class answer in the error shape, and the next request works.

Reference: error responses of `POST /v1/chat/completions`, error body format.
"""

from __future__ import annotations

import json

import pytest

from tests.server.process import Server
from tests.server.wire import CHAT, exchange, get, post_chat, request_bytes, say

pytestmark = pytest.mark.server

MESSAGES = '"messages":[{"role":"user","content":"hi"}]'
DEEP = b"[" * 100_000 + b"]" * 100_000

BAD_BODIES = {
    "empty": b"",
    "white space": b" \r\n\t ",
    "cut off": b"{",
    "not JSON": b"hello",
    "array": b"[]",
    "string": b'"x"',
    "null": b"null",
    "number": b"1",
    "no messages": b"{}",
    "null messages": b'{"messages":null}',
    "empty messages": b'{"messages":[]}',
    "object for messages": b'{"messages":{}}',
    "null message": b'{"messages":[null]}',
    "role of another type": b'{"messages":[{"role":7,"content":"x"}]}',
    "temperature of another type": f'{{{MESSAGES},"temperature":"hot"}}'.encode(),
    "stream of another type": f'{{{MESSAGES},"stream":"yes"}}'.encode(),
    "fraction of a token": f'{{{MESSAGES},"max_tokens":1.5}}'.encode(),
    "invalid UTF-8": b'{"messages":[{"role":"user","content":"\xc4\xe3"}]}',
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(say("hi")).encode(),
    "UTF-16": json.dumps(say("hi")).encode("utf-16"),
    "UTF-32": json.dumps(say("hi")).encode("utf-32"),
    "NaN": f'{{{MESSAGES},"temperature":NaN}}'.encode(),
    "Infinity in an unknown field": f'{{{MESSAGES},"x":Infinity}}'.encode(),
    "negative Infinity": f'{{{MESSAGES},"x":-Infinity}}'.encode(),
    "float that overflows": f'{{{MESSAGES},"seed":1e999}}'.encode(),
    "integer that overflows": f'{{{MESSAGES},"max_tokens":{"9" * 5000}}}'.encode(),
    "integer past a double": f'{{{MESSAGES},"x":1{"0" * 309}}}'.encode(),
    "deep messages": b'{"messages":' + DEEP + b"}",
    "deep unknown field": f'{{{MESSAGES},"x":'.encode() + DEEP + b"}",
    "deep unclosed": b'{"messages":' + b'[{"a":' * 100_000,
    "deep tool parameters": f'{{{MESSAGES},"tools":[{{"function":{{"parameters":'.encode()
    + b'{"a":' * 100_000
    + b"1"
    + b"}" * 100_000
    + b"}}]}",
    "trailing text": json.dumps(say("hi")).encode() + b"x",
    "raw control character": b'{"messages":[{"content":"a\nb"}]}',
    "zero bytes": b"\0" * 100,
}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_bad_body_is_400_and_the_next_request_works(
    server: Server, body: bytes, stream: bool
) -> None:
    if stream:
        body = body.replace(b'{"messages"', b'{"stream":true,"messages"', 1)
    answer = post_chat(server, body)
    assert (answer.status, answer.error_type()) == (400, "invalid_request_error")
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]
    assert post_chat(server, say("still here")).status == 200


def test_wrong_type_names_the_field_and_what_came(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "a"}, {"role": 7}]}
    message = post_chat(server, body).json()["error"]["message"]
    assert message.startswith("messages[1].role: expected ")
    assert message.endswith(", got integer")


@pytest.mark.parametrize(
    "content",
    ["emoji \\ud83d", "\\udc00 alone", "\\ud83d\\ud83d\\ude00", "a\\u0000b"],
    ids=["high", "low", "high before a pair", "NUL"],
)
def test_odd_code_points_are_served(server: Server, content: str) -> None:
    """Lone surrogates become U+FFFD and the request is served; NUL is a character like others."""
    body = f'{{"messages":[{{"role":"user","content":"{content}"}}]}}'.encode()
    answer = post_chat(server, body)
    assert answer.status == 200
    expected = {
        "emoji \\ud83d": "emoji \ufffd",
        "\\udc00 alone": "\ufffd alone",
        "\\ud83d\\ud83d\\ude00": "\ufffd\U0001f600",
        "a\\u0000b": "a\0b",
    }[content]
    assert answer.json()["choices"][0]["message"]["content"] == expected


def test_repeated_key_keeps_its_last_value(server: Server) -> None:
    body = b'{"messages":[{"content":"first"}],"messages":[{"content":"last"}]}'
    assert post_chat(server, body).json()["choices"][0]["message"]["content"] == "last"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Content-Type: text/plain",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: application/json; charset=latin-1",
        "Content-Type: multipart/form-data; boundary=x",
    ],
)
def test_content_type_is_not_checked(server: Server, header: str | None) -> None:
    """Reference, request headers: the body is parsed as JSON regardless."""
    headers = [] if header is None else [header]
    answer = post_chat(server, json.dumps(say("blåbær"), ensure_ascii=False).encode(), *headers)
    assert answer.json()["choices"][0]["message"]["content"] == "blåbær"


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nno colon here\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n", 431),
        (b"POST " + CHAT.encode() + b" HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST " + CHAT.encode() + b" HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
            400,
        ),
        (b"POST " + CHAT.encode() + b" HTTP/1.1\r\nTransfer-Encoding: zip\r\n\r\n", 400),
        (b"POST " + CHAT.encode() + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (
            b"POST " + CHAT.encode() + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\n{}__0\r\n\r\n",
            400,
        ),
        (
            b"POST "
            + CHAT.encode()
            + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"0" * 9000,
            400,
        ),
        (b"GET / HTTP/1.1\r\nExpect: miracles\r\n\r\n", 400),
    ],
)
def test_what_is_not_http_gets_the_error_shape(
    server: Server, request_text: bytes, status: int
) -> None:
    answer = exchange(server, request_text)
    assert (answer.status, answer.error_type()) == (status, "invalid_request_error")
    assert len(answer.body) < 1000
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]
    assert get(server, "/").status == 200


def test_chunked_body_is_read(server: Server) -> None:
    body = json.dumps(say("in chunks")).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = request_bytes("POST", CHAT, None, "Transfer-Encoding: chunked")
    assert exchange(server, head + chunks).json()["choices"][0]["message"]["content"] == "in chunks"


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("Transfer-Encoding: gzip, chunked", False),
        ("Transfer-Encoding: deflate, chunked", False),
        ("Transfer-Encoding: chunked", True),
        ("Transfer-Encoding: Chunked", True),
        ("Content-Encoding: gzip", False),
        ("Content-Encoding: identity, br", False),
        ("Content-Encoding: IDENTITY", True),
    ],
)
def test_coded_body_is_refused_and_not_taken_for_plain_json(
    server: Server, header: str, accepted: bool
) -> None:
    body = json.dumps(say("hi")).encode()
    if header.startswith("Transfer"):
        framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        answer = exchange(server, request_bytes("POST", CHAT, None, header) + framed)
    else:
        answer = post_chat(server, body, header)
    if accepted:
        assert answer.status == 200
        return
    assert (answer.status, answer.error_type()) == (400, "invalid_request_error")
    name, _, value = header.partition(": ")
    message = answer.json()["error"]["message"]
    assert message.startswith(f"{name}: expected ")
    assert message.endswith(f"got {value!r}")


def test_unknown_role_is_400_that_names_the_allowed_ones(server: Server) -> None:
    """Reference, `messages`: four roles, `developer` beside them; others reach no prompt."""
    answer = post_chat(server, {"messages": [{"role": "system\n<|im_start|>", "content": "x"}]})
    assert (answer.status, answer.error_type()) == (400, "invalid_request_error")
    for role in ("system", "user", "assistant", "tool"):
        assert role in answer.json()["error"]["message"]
