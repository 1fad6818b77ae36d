"""The OpenAPI document describes every route, its parameters and its answers, and the page at /docs shows it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from server.api.app import ROUTERS, new_app
from server.api.openapi import FOREIGN
from server.api.parameters import FORM, MULTIPART
from server.web.page import PAGE_POLICY

DOCUMENT: dict[str, Any] = new_app().openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    pytest.param(path, method, operation, id=f"{method} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
ROUTES = [route for router in ROUTERS for route in router.routes]
DOCUMENTED = [route for route in ROUTES if route.include_in_schema]
ASK = {"q": "Hello", "source": "en", "target": "de"}
CALLS = [
    ("post", "/translate", ASK | {"details": True, "alternatives": 1}),
    ("post", "/translate", ASK | {"q": ["Hello", "42"], "details": True, "alternatives": 1, "source": "auto"}),
    ("post", "/detect", {"q": "Hello"}),
    ("get", "/languages", {}),
    ("get", "/frontend/settings", {}),
    ("get", "/attention", ASK | {"figures": "true", "translation": "Hallo"}),
    ("get", "/attention", ASK | {"numbers": "float32"}),
    ("post", "/score", ASK | {"translation": "Hallo"}),
    ("post", "/score", ASK | {"translation": ["Hallo", "Tag"]}),
    ("post", "/align", {"pairs": [["Hello", "olleH"]], "source": "en", "target": "de"}),
    ("post", "/trace", ASK),
    ("get", "/health", {}),
    ("get", "/ready", {}),
    ("get", "/", {}),
]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMAS[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def test_every_public_route_is_described():
    paths = {(method.lower(), route.path) for route in DOCUMENTED for method in route.methods}
    assert {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods} == paths
    hidden = {route.path for route in ROUTES} - {route.path for route in DOCUMENTED}
    assert hidden == {"/docs", "/spec"}  # every other one only repeats a described one with another method


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_answer_has_a_schema(path, method, operation):
    assert operation["summary"] and operation["tags"]
    assert "422" not in operation["responses"]  # validation errors are 400
    assert path == "/suggest" or sum(status.startswith("2") for status in operation["responses"]) == 1
    if FOREIGN.intersection(operation["tags"]):
        assert "default" in operation["responses"]
        return  # their authors describe the answers
    for status, response in operation["responses"].items():
        if status in ("204", "304"):
            assert "content" not in response
            continue
        for content in response["content"].values():
            schema = resolved(content["schema"])
            assert (
                schema.get("properties") or schema.get("additionalProperties") or schema["type"] in ("string", "array")
            )
            if schema["type"] == "array":
                assert resolved(schema["items"])["properties"]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_parameters_are_described(path, method, operation):
    assert all(parameter.get("description") for parameter in operation.get("parameters", []))
    contents = operation.get("requestBody", {}).get("content", {})
    for content in contents.values():
        fields = resolved(content["schema"])["properties"]
        assert all(field.get("description") for field in fields.values())
        assert set(content.get("example", {})) <= set(fields)
    if "application/json" in contents:
        assert set(contents) == {"application/json", FORM, MULTIPART}
        assert set(resolved(contents[FORM]["schema"]).get("required", [])) <= set(contents[FORM]["example"])


@pytest.mark.parametrize(("method", "path", "fields"), CALLS)
def test_answers_match_their_models(client, method, path, fields):
    answer = client.get(path, params=fields) if method == "get" else client.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    [route] = [one for one in DOCUMENTED if one.path == path and method.upper() in one.methods]
    TypeAdapter(route.response_model).validate_json(answer.content, extra="forbid")


def test_the_document_is_served(client):
    assert client.get("/openapi.json").json() == DOCUMENT


def test_the_page_loads_only_files_of_this_server(client):
    page = client.get("/docs")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == PAGE_POLICY and page.headers["cache-control"] == "no-cache"
    assert "unsafe" not in PAGE_POLICY and "http" not in PAGE_POLICY
    assert not re.search(r"<script(?![^>]* src=)|<style|style=", page.text)
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "static/swagger-ui-bundle.js" in links
    for link in links:
        assert client.get(f"/{link}").status_code == 200, link
