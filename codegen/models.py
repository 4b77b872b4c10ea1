"""The models, by datamodel-code-generator."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from codegen.document import JsonObject

OPTIONS = (
    "--input-file-type=openapi",
    "--output-model-type=msgspec.Struct",
    "--target-python-version=3.11",
    "--keyword-only",
    "--disable-timestamp",
    "--enum-field-as-literal=all",
    "--use-default",
    "--strict-nullable",
    "--use-schema-description",
    "--use-field-description",
    "--use-inline-field-description",
    "--use-single-line-docstring",
    "--no-use-annotated",
    "--strict-refs",
    "--no-allow-remote-refs",
    "--no-formatters",
    '--extra-template-data={"#all#": {"base_class_kwargs": {"frozen": true, "kw_only": true}}}',
)


def generate(source: JsonObject, header: str) -> str:
    """Generate one module of frozen msgspec structs, one per component schema.

    Args:
        source: an OpenAPI document of which only `components.schemas` counts.
        header: comment lines for the top of the module.

    Raises:
        RuntimeError: the generator failed; the message is what it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "models.json"
        path.write_text(json.dumps(source), encoding="utf-8")
        command = [sys.executable, "-m", "datamodel_code_generator", *OPTIONS]
        command += [f"--input={path}", f"--custom-file-header={header}"]
        # Run from the empty folder, so that no project's settings for the generator are found.
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
        )
    if result.returncode != 0:
        raise RuntimeError(f"datamodel-code-generator failed:\n{result.stderr}{result.stdout}")
    return _in_schema_order(result.stdout, source["components"]["schemas"])


def _in_schema_order(module: str, schemas: JsonObject) -> str:
    """Put the fields of each class back into the order of the schema's properties.

    The generator moves fields without a default to the front. Fields are keyword-only, so that is
    not needed, and their order is the order of the members on the wire.
    """
    lines = module.splitlines(keepends=True)
    for definition in reversed(ast.parse(module).body):
        if not isinstance(definition, ast.ClassDef):
            continue
        fields: dict[str, list[str]] = {}
        statements = [s for s in definition.body if isinstance(s, ast.AnnAssign)]
        starts = [statement.lineno - 1 for statement in statements]
        ends = [*starts[1:], definition.end_lineno]
        for statement, start, end in zip(statements, starts, ends, strict=True):
            fields[ast.unparse(statement.target)] = [*lines[start:end], "\n"]
        ordered = [fields[name] for name in schemas[definition.name]["properties"]]
        lines[starts[0] : definition.end_lineno] = [line for field in ordered for line in field]
    return "".join(lines)
