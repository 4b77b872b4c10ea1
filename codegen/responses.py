"""The responses of a document, read into the form that the templates render."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from codegen.document import Document, Node, UnsupportedSpec
from codegen.names import class_name, python_name
from codegen.schemas import reference_name


@dataclass(frozen=True, slots=True)
class Header:
    """A response header that an operation sets."""

    name: str
    python_name: str
    type: Literal["str", "int"]
    required: bool


@dataclass(frozen=True, slots=True)
class Response:
    """One status and content type of an operation.

    Attributes:
        bodies: models of a JSON body, of which it is one.
        in_pieces: whether the operation hands a JSON body over encoded, in pieces.
        events: models of the JSON events of a stream.
    """

    class_name: str
    status: int
    content: Literal["json", "event_stream"]
    bodies: tuple[str, ...]
    in_pieces: bool
    events: tuple[str, ...]
    sentinels: tuple[str, ...]
    comments: bool
    headers: tuple[Header, ...]
    description: str


def read_responses(
    document: Document, operation_id: str, status: str, item: Node
) -> Iterator[Response]:
    """The responses of one status of an operation, one for each content type.

    Raises:
        UnsupportedSpec: a construct for which the templates generate nothing.
    """
    if not re.fullmatch(r"[2-5][0-9][0-9]", status):
        raise UnsupportedSpec(item.pointer, f"expected a status such as 200, found {status!r}")
    node = document.resolve(item)
    node.allow("description", "headers", "content", what="a response")
    if not node.value.get("content"):
        raise UnsupportedSpec(node.pointer, "a response must have content")
    headers = tuple(_headers(document, node)) if "headers" in node.value else ()
    for media_type, media in node.child("content").members().items():
        media.allow("schema", "example", "examples", what="a media type")
        bodies: tuple[str, ...] = ()
        events: tuple[str, ...] = ()
        sentinels: tuple[str, ...] = ()
        comments = False
        in_pieces = media.switch("x-pantheon-pieces")
        if in_pieces and media_type != "application/json":
            raise UnsupportedSpec(
                media.child("x-pantheon-pieces").pointer, "only JSON is handed over in pieces"
            )
        if media_type == "application/json":
            bodies = _bodies(document, media.child("schema"))
        elif media_type == "text/event-stream":
            stream = _event_stream(media)
            events = tuple(reference_name(document, e) for e in stream.child("events").items())
            sentinels = tuple(str(s.value) for s in stream.child("sentinels").items())
            comments = stream.value["comments"]
        else:
            raise UnsupportedSpec(media.pointer, "expected application/json or text/event-stream")
        suffix = "Json" if bodies else "EventStream"
        yield Response(
            class_name=f"{class_name(operation_id)}{status}{suffix}",
            status=int(status),
            content="json" if bodies else "event_stream",
            bodies=bodies,
            in_pieces=in_pieces,
            events=events,
            sentinels=sentinels,
            comments=comments,
            headers=headers,
            description=node.value["description"],
        )


def _bodies(document: Document, schema: Node) -> tuple[str, ...]:
    """One model; one of several (`oneOf`); or a model with some values narrowed (`allOf`)."""
    value = schema.value
    if "oneOf" in value:
        schema.allow("oneOf", what="a choice of bodies")
        return tuple(reference_name(document, member) for member in schema.child("oneOf").items())
    if "allOf" in value:
        schema.allow("allOf", what="a narrowed body")
        members = schema.child("allOf").items()
        if len(members) != 2:
            raise UnsupportedSpec(
                schema.child("allOf").pointer, "expected a reference and what narrows it"
            )
        _check_narrowing(members[1])
        return (reference_name(document, members[0]),)
    return (reference_name(document, schema),)


def _check_narrowing(node: Node) -> None:
    node.allow("properties", "enum", "const", what="what narrows a model")
    if "properties" in node.value:
        for member in node.child("properties").members().values():
            _check_narrowing(member)


def _event_stream(media: Node) -> Node:
    if "x-pantheon-sse" not in media.value:
        raise UnsupportedSpec(media.pointer, "an event stream must say x-pantheon-sse")
    stream = media.child("x-pantheon-sse")
    if not {"events", "sentinels", "comments"} == stream.members().keys():
        raise UnsupportedSpec(stream.pointer, "expected events, sentinels and comments")
    return stream


def _headers(document: Document, response: Node) -> Iterator[Header]:
    for name, item in response.child("headers").members().items():
        node = document.resolve(item)
        node.allow("description", "required", "schema", what="a header")
        if node.value.get("x-pantheon-middleware") is True:
            continue
        schema = node.child("schema")
        schema.allow("type", "minimum", what="a header's schema")
        kind = schema.value.get("type")
        if kind not in ("string", "integer"):
            raise UnsupportedSpec(
                schema.pointer, f"expected type string or integer, found {kind!r}"
            )
        yield Header(
            name=name,
            python_name=python_name(name),
            type="str" if kind == "string" else "int",
            required=node.value.get("required", False),
        )
