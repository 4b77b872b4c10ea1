"""The spec with one route added, generated into a folder of its own."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import falcon
import falcon.testing
import msgspec
import pytest

from codegen.__main__ import ROOT, main

# What a person adds to the YAML for a new route, and nothing else.
ADDED_PATH = """
  /v1/echo:
    put:
      operationId: echo
      tags: [client]
      summary: Say it again.
      requestBody:
        required: true
        content:
          application/json:
            schema: { $ref: "#/components/schemas/EchoParams" }
      responses:
        "201":
          description: It, again.
          headers:
            X-Count: { required: true, schema: { type: integer } }
            X-Note: { schema: { type: string } }
          content:
            application/json:
              schema: { $ref: "#/components/schemas/Echo" }
"""
ADDED_SCHEMAS = """
    EchoParams:
      type: object
      required: [text]
      properties:
        text: { type: string }
        times: { type: [integer, "null"], default: 2 }
    Echo:
      type: object
      required: [text]
      properties:
        text: { type: string }
"""


class Generated(NamedTuple):
    """The generated package, imported."""

    folder: Path
    models: Any
    operations: Any
    routes: Any
    parsing: Any


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("codegen")
    text = (ROOT / "openapi" / "pantheon.yaml").read_text(encoding="utf-8")
    text = text.replace("\ncomponents:\n", f"{ADDED_PATH}\ncomponents:\n")
    spec = folder / "extended.yaml"
    spec.write_text(text + ADDED_SCHEMAS, encoding="utf-8")
    package = folder / "extended_wire"
    assert main(["--spec", str(spec), "--output", str(package)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        names = ("models", "operations", "routes", "parsing")
        yield Generated(package, *(importlib.import_module(f"extended_wire.{n}") for n in names))


class Client:
    """A connection that stays open."""

    name = "a test"

    def is_gone(self) -> bool:
        return False


class Runtime:
    """What pantheon.http supplies, as little of it as these tests need."""

    def read_body(
        self, request: falcon.Request, operation_id: str, own_limit: int | None = None
    ) -> object:
        value = json.load(request.bounded_stream)
        # What the operation says of itself is shown to the tests in the value.
        return value if own_limit is None else {"name": str(own_limit), **value}

    def invalid_parameter(self, name: str, rule: str, value: str | None) -> Exception:
        return falcon.HTTPBadRequest(title=name, description=f"{rule}: {value}")

    def client(self, request: falcon.Request) -> Client:
        return Client()

    def encode(self, body: msgspec.Struct) -> bytes:
        return msgspec.json.encode(body)

    def send(self, response: falcon.Response, body: Any) -> None:
        response.content_type = falcon.MEDIA_JSON
        response.set_stream(body, body.length)

    def stream(self, response: falcon.Response, events: Any) -> None:
        def lines() -> Iterator[bytes]:
            for event in events:
                if isinstance(event, msgspec.Struct):
                    yield b"data: " + msgspec.json.encode(event) + b"\n\n"
                else:
                    yield f"{event}\n\n".encode()

        response.content_type = "text/event-stream"
        response.stream = lines()


Serve: TypeAlias = Callable[..., falcon.testing.TestClient]


@pytest.fixture
def serve(generated: Generated) -> Serve:
    """Serve operations given by their methods; the others must not be called."""

    def client(**methods: Callable[[Any], object]) -> falcon.testing.TestClient:
        def uncalled(self: object, request: object = None) -> object:
            raise AssertionError(f"called with {request}")

        abstract = generated.operations.Operations
        members: dict[str, object] = dict.fromkeys(abstract.__abstractmethods__, uncalled)
        members |= {name: staticmethod(method) for name, method in methods.items()}
        app = falcon.App()
        operations = type("Implemented", (abstract,), members)()
        generated.routes.add_routes(app, operations, Runtime())
        return falcon.testing.TestClient(app)

    return client
