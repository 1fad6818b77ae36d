"""GET /docs: the API on one page, made from the OpenAPI description. No script, and nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

router = APIRouter(include_in_schema=False)
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
section { border-top: 1px solid #8888; padding: 0.5rem 0 1rem; }
h2 code { font-size: 1rem; } h2 { font-size: 1.1rem; margin: 0.5rem 0; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: 0.2rem 0.8rem
0.2rem 0; } pre { background: #8882; padding: 0.6rem; overflow: auto; } .tag { opacity: 0.7; font-weight: normal; }
"""
POLICY = f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
Json = dict[str, Any]


@router.get("/docs")
async def docs(request: Request) -> Response:
    page = rendered(request.app.openapi(), str(request.base_url).rstrip("/"))
    return Response(page, headers={"Content-Security-Policy": POLICY}, media_type="text/html; charset=utf-8")


def rendered(schema: Json, base: str) -> str:
    """The whole page. `base` is the server's own address, for the examples."""
    sections = [
        operation(path, method, described, base)
        for path, methods in schema["paths"].items()
        for method, described in methods.items()
    ]
    title = text(f"{schema['info']['title']} {schema['info']['version']}")
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}: API</title><style>{STYLE}</style><h1>{title}: API</h1>"
        f'<p>{text(schema["info"].get("description", ""))} Machines read <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(sections)}</html>"
    )


def operation(path: str, method: str, described: Json, base: str) -> str:
    """One method of one path: summary, parameters, example, answers."""
    body = described.get("requestBody", {}).get("content", {})
    schema: Json = next((content.get("schema", {}) for content in body.values()), {})
    fields = [
        (name, field, name in schema.get("required", ())) for name, field in schema.get("properties", {}).items()
    ] + [(one["name"], one.get("schema", {}), one.get("required", False)) for one in described.get("parameters", ())]
    tags = ", ".join(described.get("tags", ()))
    return (
        f"<section><h2><code>{method.upper()} {text(path)}</code> {text(described.get('summary', ''))} "
        f'<span class="tag">{text(tags)}</span></h2><p>{text(described.get("description", ""))}</p>'
        f"{table(fields)}{example(path, method, schema, body, base)}{answers(described.get('responses', {}))}</section>"
    )


def table(fields: list[tuple[str, Json, bool]]) -> str:
    if not fields:
        return ""
    rows = "".join(
        f"<tr><td><code>{text(name)}</code></td><td>{text(kind(field))}{' (required)' if required else ''}</td>"
        f"<td>{text(field.get('description', ''))}{text(default(field))}</td></tr>"
        for name, field, required in fields
    )
    return f"<table><tr><th>Parameter</th><th>Type</th><th>Meaning</th></tr>{rows}</table>"


def kind(field: Json) -> str:
    """The type of a parameter in words."""
    if "anyOf" in field:
        return " or ".join(kind(one) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    if field.get("type") == "array":
        return f"list of {kind(field.get('items', {}))}"
    return str(field.get("type", "any"))


def default(field: Json) -> str:
    return f" Default: {json.dumps(field['default'])}." if field.get("default") is not None else ""


def example(path: str, method: str, schema: Json, body: Json, base: str) -> str:
    """A call with curl, from the examples in the schema."""
    values = {
        name: schema["properties"][name]["examples"][0]
        for name in schema.get("required", ())
        if schema["properties"][name].get("examples")
    }
    if method != "post" or not values or "application/json" not in body:
        return ""
    call = f"curl {base}{path} -H 'Content-Type: application/json' -d '{json.dumps(values, ensure_ascii=False)}'"
    return f"<pre>{text(call)}</pre>"


def answers(responses: Json) -> str:
    rows = "".join(
        f"<tr><td>{text(status)}</td><td>{text(described.get('description', ''))}</td></tr>"
        for status, described in sorted(responses.items())
    )
    return f"<table><tr><th>Status</th><th></th></tr>{rows}</table>"


def text(value: object) -> str:
    return html.escape(str(value))
