"""The operations of a document, read into the form that the templates render."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from codegen.document import Document, Node, UnsupportedSpec
from codegen.names import class_name, python_name
from codegen.responses import Response, read_responses
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
        for response in read_responses(document, operation_id, status, item)
    ]
    if not any(response.status < 300 for response in responses):
        raise UnsupportedSpec(node.child("responses").pointer, "expected a response of success")
    own_body_limit = node.switch("x-pantheon-own-body-limit")
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
        python_name=python_name(name),
        location=location,
        required=required,
        kind=kind,
        minimum=schema.value.get("minimum"),
        max_length=schema.value.get("maxLength"),
        description=node.value.get("description", name),
    )
