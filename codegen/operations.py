"""The operations of a document, read into the form that the templates render."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from codegen.document import Document, Node, UnsupportedSpec
from codegen.schemas import reference_name

METHODS = ("get", "post", "put", "patch", "delete")
ParameterKind: TypeAlias = Literal["string", "integer", "positive-integer", "positive-number"]
READ_AS = ("positive-integer", "positive-number")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query or header parameter.

    Attributes:
        kind: what its text is read as. `integer` refuses a text that is none; the positive kinds
            count such a text as absent.
        minimum: least value of an `integer`, if there is one.
        max_length: most characters of a `string`, if there is such a bound.
    """

    name: str
    python_name: str
    location: Literal["query", "header"]
    required: bool
    kind: ParameterKind
    minimum: int | None
    max_length: int | None
    description: str

    @property
    def type(self) -> str:
        """The Python type of the parsed value."""
        base = {"string": "str", "positive-number": "float"}.get(self.kind, "int")
        return base if self.required else f"{base} | None"


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


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    Attributes:
        own_body_limit: whether the operation says itself how large its bodies may be.
    """

    operation_id: str
    path: str
    method: str
    summary: str
    body: str | None
    parameters: tuple[Parameter, ...]
    responses: tuple[Response, ...]
    own_body_limit: bool

    @property
    def prefix(self) -> str:
        """The operation's id as a class name."""
        return class_name(self.operation_id)

    @property
    def streams_only(self) -> bool:
        """Whether success is always an event stream, which HEAD must not hold open."""
        return all(r.content == "event_stream" for r in self.responses if r.status < 300)


def class_name(text: str) -> str:
    """`text` in upper camel case, letters and digits only."""
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", text))


def read_operations(document: Document) -> tuple[Operation, ...]:
    """The operations in the order of the document.

    Raises:
        UnsupportedSpec: a construct for which the templates generate nothing.
    """
    operations: list[Operation] = []
    seen: set[str] = set()
    for path, item in document.root.child("paths").members().items():
        item.allow(*METHODS, what="a path item")
        if not path.startswith("/") or "{" in path:
            raise UnsupportedSpec(item.pointer, "expected a path without parameters")
        for method, node in item.members().items():
            if method.startswith("x-"):
                continue
            operation = _operation(document, path, method, node)
            if operation.operation_id in seen:
                raise UnsupportedSpec(
                    node.child("operationId").pointer, "another operation has this id"
                )
            seen.add(operation.operation_id)
            operations.append(operation)
    return tuple(operations)


def _operation(document: Document, path: str, method: str, node: Node) -> Operation:
    node.allow(
        "operationId", "tags", "summary", "parameters", "requestBody", "responses",
        what="an operation",
    )  # fmt: skip
    for key in ("operationId", "summary", "responses"):
        if key not in node.value:
            raise UnsupportedSpec(node.pointer, f"an operation must hold {key!r}")
    operation_id = node.value["operationId"]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", operation_id):
        raise UnsupportedSpec(node.child("operationId").pointer, "expected a snake_case name")
    body = None
    if "requestBody" in node.value:
        if method == "get":
            raise UnsupportedSpec(node.child("requestBody").pointer, "GET has no body")
        body = _request_body(document, node.child("requestBody"))
    given = node.child("parameters").items() if "parameters" in node.value else []
    parameters = tuple(_parameter(document.resolve(parameter)) for parameter in given)
    responses = [
        response
        for status, item in node.child("responses").members().items()
        for response in _responses(document, operation_id, status, item)
    ]
    if not any(response.status < 300 for response in responses):
        raise UnsupportedSpec(node.child("responses").pointer, "expected a response of success")
    own_body_limit = _switch(node, "x-pantheon-own-body-limit")
    if own_body_limit and body is None:
        raise UnsupportedSpec(
            node.child("x-pantheon-own-body-limit").pointer, "the operation has no body"
        )
    return Operation(
        operation_id=operation_id,
        path=path,
        method=method,
        summary=node.value["summary"],
        body=body,
        parameters=parameters,
        responses=tuple(responses),
        own_body_limit=own_body_limit,
    )


def _switch(node: Node, extension: str) -> bool:
    value = node.value.get(extension, False)
    if not isinstance(value, bool):
        raise UnsupportedSpec(node.child(extension).pointer, f"expected a boolean, found {value!r}")
    return value


def _request_body(document: Document, node: Node) -> str:
    body = document.resolve(node)
    body.allow("required", "description", "content", what="a request body")
    if body.value.get("required") is not True:
        raise UnsupportedSpec(body.pointer, "a request body must be required")
    content = body.child("content")
    content.allow("application/json", what="a request body's content")
    media = content.child("application/json")
    media.allow("schema", "example", "examples", what="a media type")
    return reference_name(document, media.child("schema"))


def _parameter(node: Node) -> Parameter:
    node.allow("name", "in", "required", "description", "schema", what="a parameter")
    name, location = node.value["name"], node.value["in"]
    if location not in ("query", "header"):
        raise UnsupportedSpec(node.child("in").pointer, f"expected query or header: {location!r}")
    schema = node.child("schema")
    schema.allow("type", "minimum", "maxLength", what="a parameter's schema")
    kind = schema.value.get("type")
    if kind not in ("string", "integer"):
        raise UnsupportedSpec(schema.pointer, f"expected type string or integer, found {kind!r}")
    required = node.value.get("required", False)
    read_as = node.value.get("x-pantheon-read-as")
    if read_as is not None:
        if read_as not in READ_AS or kind != "string" or required:
            raise UnsupportedSpec(
                node.child("x-pantheon-read-as").pointer,
                f"expected one of {READ_AS} on an optional string, found {read_as!r}",
            )
        kind = read_as
    if location == "header" and (kind != "string" or required):
        raise UnsupportedSpec(node.pointer, "a header parameter must be an optional string")
    return Parameter(
        name=name,
        python_name=_python_name(name),
        location=location,
        required=required,
        kind=kind,
        minimum=schema.value.get("minimum"),
        max_length=schema.value.get("maxLength"),
        description=node.value.get("description", name),
    )


def _responses(
    document: Document, operation_id: str, status: str, item: Node
) -> Iterator[Response]:
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
        in_pieces = _switch(media, "x-pantheon-pieces")
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
            python_name=_python_name(name),
            type="str" if kind == "string" else "int",
            required=node.value.get("required", False),
        )


def _python_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())
