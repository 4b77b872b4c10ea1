"""What no code can be generated for stops the generation with its JSON pointer."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from codegen.__main__ import ROOT, main
from codegen.document import UnsupportedSpec, check, load
from codegen.render import generate

SPEC: dict[str, Any] = yaml.safe_load(
    (ROOT / "openapi" / "pantheon.yaml").read_text(encoding="utf-8")
)
CHAT = "/paths/~1v1~1chat~1completions/post"
ESTIMATE = "/paths/~1session~1estimate/get"
EXPORT = "/paths/~1admin~1session~1export/post"
SCHEMAS = "/components/schemas"


def changed(pointer: str, value: object) -> dict[str, Any]:
    """The spec with the value at a JSON pointer replaced or added."""
    document = copy.deepcopy(SPEC)
    *parents, last = [
        key.replace("~1", "/").replace("~0", "~") for key in pointer.removeprefix("/").split("/")
    ]
    node: Any = document
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node[key]
    node[int(last) if isinstance(node, list) else last] = value
    return document


OK = {"description": "d", "content": {"application/json": {"schema": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("edit", "value", "pointer", "reason"),
    [
        # Documents
        ("/openapi", "3.0.3", "/openapi", "3.1"),
        ("/webhooks", {}, "/webhooks", "a document may hold"),
        ("/components/securitySchemes", {}, "/components/securitySchemes", "components may hold"),
        # Paths and operations
        ("/paths/~1v1~1models~1{id}", {}, "/paths/~1v1~1models~1{id}", "without parameters"),
        ("/paths/~1/trace", SPEC["paths"]["/"]["get"], "/paths/~1/trace", "a path item may hold"),
        ("/paths/~1/parameters", [], "/paths/~1/parameters", "a path item may hold"),
        (f"{CHAT}/callbacks", {}, f"{CHAT}/callbacks", "an operation may hold"),
        (f"{CHAT}/security", [], f"{CHAT}/security", "an operation may hold"),
        (f"{CHAT}/operationId", "createChat", f"{CHAT}/operationId", "snake_case"),
        (f"{CHAT}/requestBody/required", False, f"{CHAT}/requestBody", "must be required"),
        (
            f"{CHAT}/requestBody/content/multipart~1form-data",
            {"schema": {"$ref": "#/components/schemas/Error"}},
            f"{CHAT}/requestBody/content/multipart~1form-data",
            "application/json",
        ),
        (
            f"{CHAT}/requestBody/content/application~1json/schema",
            {"type": "object"},
            f"{CHAT}/requestBody/content/application~1json/schema",
            "expected a reference",
        ),
        ("/paths/~1/get/requestBody", SPEC["paths"]["/session/release"]["post"]["requestBody"],
         "/paths/~1/get/requestBody", "GET has no body"),
        (f"{ESTIMATE}/x-pantheon-own-body-limit", True,
         f"{ESTIMATE}/x-pantheon-own-body-limit", "no body"),
        (f"{EXPORT}/x-pantheon-own-body-limit", "yes",
         f"{EXPORT}/x-pantheon-own-body-limit", "a boolean"),
        # Parameters
        (f"{ESTIMATE}/parameters/0/in", "cookie", f"{ESTIMATE}/parameters/0/in", "query or header"),
        (
            f"{ESTIMATE}/parameters/0/schema",
            {"type": "array", "items": {"type": "integer"}},
            f"{ESTIMATE}/parameters/0/schema/items",
            "a parameter's schema may hold",
        ),
        (
            f"{ESTIMATE}/parameters/0/schema",
            {"type": "boolean"},
            f"{ESTIMATE}/parameters/0/schema",
            "'boolean'",
        ),
        (f"{ESTIMATE}/parameters/0/style", "form", f"{ESTIMATE}/parameters/0/style", "may hold"),
        (
            f"{ESTIMATE}/parameters/2/x-pantheon-read-as",
            "date",
            f"{ESTIMATE}/parameters/2/x-pantheon-read-as",
            "positive-integer",
        ),
        # Responses
        (f"{CHAT}/responses/default", OK, f"{CHAT}/responses/default", "a status such as 200"),
        (f"{CHAT}/responses/4XX", OK, f"{CHAT}/responses/4XX", "a status such as 200"),
        (f"{CHAT}/responses/202", {"description": "d"}, f"{CHAT}/responses/202", "content"),
        (
            f"{CHAT}/responses/202",
            OK,
            f"{CHAT}/responses/202/content/application~1json/schema",
            "expected a reference",
        ),
        (
            f"{CHAT}/responses/200/content/text~1plain",
            {"schema": {"type": "string"}},
            f"{CHAT}/responses/200/content/text~1plain",
            "text/event-stream",
        ),
        (
            f"{CHAT}/responses/200/content/text~1event-stream",
            {"schema": {"type": "string"}},
            f"{CHAT}/responses/200/content/text~1event-stream",
            "x-pantheon-sse",
        ),
        (
            f"{CHAT}/responses/404/content/application~1json/schema/allOf/1/required",
            ["error"],
            f"{CHAT}/responses/404/content/application~1json/schema/allOf/1/required",
            "what narrows a model",
        ),
        (f"{CHAT}/responses/404/links", {}, f"{CHAT}/responses/404/links", "a response may hold"),
        (
            f"{CHAT}/responses/200/content/text~1event-stream/x-pantheon-pieces",
            True,
            f"{CHAT}/responses/200/content/text~1event-stream/x-pantheon-pieces",
            "only JSON",
        ),
        # Schemas
        (
            f"{SCHEMAS}/SessionRestoreParams/properties/blob/contentEncoding",
            "base32",
            f"{SCHEMAS}/SessionRestoreParams/properties/blob/contentEncoding",
            "base64",
        ),
        (
            f"{SCHEMAS}/SessionExport/properties/blob_b64/contentEncoding",
            "base64",
            f"{SCHEMAS}/SessionExport/properties/blob_b64/contentEncoding",
            "only a request's text",
        ),
        (f"{SCHEMAS}/Die/not", {}, f"{SCHEMAS}/Die/not", "a schema may hold"),
        (f"{SCHEMAS}/Die/if", {}, f"{SCHEMAS}/Die/if", "a schema may hold"),
        (f"{SCHEMAS}/Die/allOf", [{"type": "object"}], f"{SCHEMAS}/Die/allOf", "a schema may hold"),
        (
            f"{SCHEMAS}/Die/patternProperties",
            {"^x": {}},
            f"{SCHEMAS}/Die/patternProperties",
            "a schema may hold",
        ),
        (
            f"{SCHEMAS}/Die/properties/die/format",
            "int32",
            f"{SCHEMAS}/Die/properties/die/format",
            "a schema may hold",
        ),
        (
            f"{SCHEMAS}/Die/properties/card",
            {"type": "object", "properties": {}},
            f"{SCHEMAS}/Die/properties/card/properties",
            "a schema of its own",
        ),
        (f"{SCHEMAS}/Die/properties/card", True, f"{SCHEMAS}/Die/properties/card", "an object"),
        (f"{SCHEMAS}/Die/properties/x-y", {}, f"{SCHEMAS}/Die/properties/x-y", "a field's name"),
        (f"{SCHEMAS}/Die/properties/class", {}, f"{SCHEMAS}/Die/properties/class", "field's name"),
        (f"{SCHEMAS}/die", {"type": "string"}, f"{SCHEMAS}/die", "a class name"),
        # References
        (
            f"{SCHEMAS}/Die/properties/card",
            {"$ref": "other.yaml#/Card"},
            f"{SCHEMAS}/Die/properties/card/$ref",
            "must stay in the document",
        ),
        (
            f"{SCHEMAS}/Die/properties/card",
            {"$ref": "#/components/schemas/Card"},
            f"{SCHEMAS}/Die/properties/card/$ref",
            "refers to nothing",
        ),
        (f"{SCHEMAS}/Die", {"$ref": f"#{SCHEMAS}/Die"}, f"{SCHEMAS}/Die/$ref", "refers to itself"),
        # Null means absent in requests and null in responses.
        (
            f"{SCHEMAS}/Die/properties/card",
            {"$ref": f"#{SCHEMAS}/ChatMessage"},
            f"{SCHEMAS}/ChatMessage",
            "use two schemas",
        ),
        # Not OpenAPI at all
        (f"{CHAT}/tags", "client", f"{CHAT}/tags", "is not of type"),
    ],
)  # fmt: skip
def test_unsupported_construct_is_named_by_its_pointer(
    edit: str, value: object, pointer: str, reason: str
) -> None:
    with pytest.raises(UnsupportedSpec) as caught:
        generate(check(changed(edit, value)))
    assert caught.value.pointer == pointer
    assert reason in caught.value.reason


def test_two_operations_of_one_id_are_refused() -> None:
    document = changed("/paths/~1/get/operationId", "list_models")
    with pytest.raises(UnsupportedSpec) as caught:
        generate(check(document))
    assert caught.value.pointer == "/paths/~1v1~1models/get/operationId"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("openapi: 3.1.0\nopenapi: 3.1.0\n", "line 2: the key 'openapi' is given twice"),
        ("openapi: [", "not YAML"),
        ("- a\n", "expected an object, found list"),
        ("openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths: {}\n", "must hold 'components'"),
        ("200: x\n", "keys must be strings"),
    ],
)
def test_document_that_is_none_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(UnsupportedSpec, match=reason.replace("[", r"\[")):
        load(path)


def test_command_exits_2_names_the_place_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(changed(f"{SCHEMAS}/Die/not", {})))
    assert main(["--spec", str(path), "--output", str(tmp_path / "generated")]) == 2
    assert f"{path}#{SCHEMAS}/Die/not: a schema may hold" in capsys.readouterr().err
    assert not (tmp_path / "generated").exists()
