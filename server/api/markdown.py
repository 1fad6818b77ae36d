"""Writes docs/api.md from the OpenAPI document: `python -m server.api.markdown > docs/api.md`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from server.api.app import new_app
from server.api.openapi import REFERENCE

Json = dict[str, Any]
INTRODUCTION = """# HTTP interface

This file is generated from the OpenAPI document (`python -m server.api.markdown > docs/api.md`). A running server has the
document at `/openapi.json`, and a page to try the routes at `/docs`.

A POST accepts its parameters as JSON, as a form or in the query string; the body takes precedence. HEAD is answered like GET,
without the body. An API key is a parameter or the header `Authorization: Bearer KEY`. The header `X-Request-Timeout` limits the
time of a request, in seconds. `Cache-Control: no-cache` translates a text again instead of answering from the result cache, and
`no-store` keeps nothing of a request, so that its id has no attention. Errors have a status and one sentence, as in
`{"error": "Invalid request: missing q parameter."}`.
"""


def reference(document: Json) -> str:
    """Returns the Markdown text of an OpenAPI document, with a section per tag."""
    sections: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = "\n\n".join(described(method, path, operation, document["components"]["schemas"]))
            sections.setdefault(operation["tags"][0], []).append(text)
    parts = [INTRODUCTION.strip()]
    for tag, texts in sections.items():
        parts += [f"## {tag[:1].upper()}{tag[1:]}", *texts]
    return "\n\n".join(parts) + "\n"


def described(method: str, path: str, operation: Json, schemas: Json) -> Iterator[str]:
    """Yields the paragraphs of one operation."""
    yield f"### {method.upper()} {path}"
    yield operation["summary"] + "."
    description = operation.get("description", "").split("Parameters may be sent")[0].strip()
    if description:
        yield description
    rows = list(parameter_rows(operation, schemas))
    if rows:
        yield "\n".join(["| parameter | type | meaning |", "|---|---|---|", *rows])
    bodies = operation.get("requestBody", {}).get("content", {})
    if "example" in bodies.get("application/json", {}):
        yield f"Request:\n\n{block(bodies['application/json']['example'])}"
    for media, content in answered(operation).get("content", {}).items():
        kind = "" if media == "application/json" else f" (`{media}`)"
        example = content["example"]
        binary = isinstance(example, str) and example.startswith("(")  # "(binary picture)"
        yield f"Answer{kind}: {example.strip('()')}." if binary else f"Answer{kind}:\n\n{block(example)}"
    statuses = sorted(status for status in operation["responses"] if status not in ("200", "201"))
    if statuses:
        yield f"Other statuses: {', '.join(statuses)}."


def answered(operation: Json) -> Json:
    """Returns the response of an operation that succeeds."""
    responses = operation["responses"]
    found: Json = responses.get("200") or responses.get("201") or {}
    return found


def parameter_rows(operation: Json, schemas: Json) -> Iterator[str]:
    """Yields a row for each parameter of the path, the query or the body."""
    for one in operation.get("parameters", ()):
        yield row(one["name"], one.get("schema", {}), one.get("required", False), one.get("description", ""))
    body: Json = next(iter(operation.get("requestBody", {}).get("content", {}).values()), {})
    schema = body.get("schema", {})
    for part in schema.get("allOf", [schema]):
        found = schemas[part["$ref"].removeprefix(REFERENCE)] if "$ref" in part else part
        for name, field in found.get("properties", {}).items():
            yield row(name, field, name in found.get("required", ()), field.get("description", ""))


def row(name: str, schema: Json, required: bool, description: str) -> str:
    """Returns the row of one parameter."""
    default = schema.get("default")
    notes = " Required." if required else "" if default is None else f" Default: `{json.dumps(default)}`."
    return f"| `{name}` | {type_of(schema)} | {description}{notes} |".replace("|  |", "| |")


def type_of(schema: Json) -> str:
    """Returns the type of a parameter in words."""
    if "anyOf" in schema:
        return " or ".join(type_of(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("format") == "binary":
        return "file"
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def block(example: Any) -> str:
    """Returns an example as a block of code."""
    if isinstance(example, str):
        return f"```\n{example.strip()}\n```"
    return f"```json\n{laid_out(example)}\n```"


def laid_out(value: Any, indent: str = "") -> str:
    """Returns JSON in which everything that fits into a line is on one line."""
    text = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(text) < 120 or not isinstance(value, dict | list):
        return text
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + laid_out(one, inner) for one in value) + f"\n{indent}]"
    lines = (f"{inner}{json.dumps(name)}: {laid_out(one, inner)}" for name, one in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


if __name__ == "__main__":
    sys.stdout.write(reference(new_app().openapi()))
