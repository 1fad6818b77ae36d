"""All routes: answers, the OpenAPI document, and a prefix of a proxy."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from server.api.app import ROUTERS, new_app
from server.api.openapi import FOREIGN
from server.api.parameters import FORM, MULTIPART
from server.engine.client.status import WorkerFailure
from server.web.page import PAGE_POLICY
from tests.support.servers.in_process import wait_for


def test_languages_with_and_without_a_body(client):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"", b"api_key=x"):  # libretranslatepy 2.1.1
        assert (
            client.post("/languages", content=body, headers=form).json()
            == client.get("/languages").json()
        )
    languages = client.get("/languages").json()
    assert [language["code"] for language in languages] == ["de", "en", "fr"]
    german = {
        "code": "de",
        "name": "German",
        "targets": ["de", "en", "fr"],
        "models": {"en": "toy"},
        "scores": {},
    }
    german["formality"] = []
    assert languages[0] == german
    assert client.request("GET", "/languages", data={"api_key": ""}).json() == languages


def test_detection_is_best_first_with_whole_numbers(client):
    guesses = client.post(
        "/detect", data={"q": "Bonjour tout le monde, comment allez-vous ?"}
    ).json()
    assert guesses[0]["language"] == "fr"
    assert all(
        type(guess["confidence"]) is int and 0 <= guess["confidence"] <= 100 for guess in guesses
    )
    assert guesses == sorted(guesses, key=lambda guess: -guess["confidence"])
    assert client.post("/detect", json={"q": "12345"}).json()[0]["confidence"] == 0
    for bad in ({}, {"q": ""}, {"q": ["a"]}, {"q": None}):
        assert client.post("/detect", json=bad).status_code == 400


def test_frontend_settings(serve):
    settings = serve(char_limit=123).get("/frontend/settings").json()
    assert settings["charLimit"] == 123
    assert settings["language"] == {
        "source": {"code": "auto", "name": "Auto Detect"},
        "target": {"code": "en", "name": "English"},
    }
    for key in (
        "frontendTimeout",
        "apiKeys",
        "keyRequired",
        "suggestions",
        "filesTranslation",
        "supportedFilesFormat",
    ):
        assert key in settings


@pytest.mark.parametrize("body", [{"q": "a", "s": "b", "source": "en", "target": "de"}, {}])
def test_suggestions_are_rejected(client, body):
    answer = client.post("/suggest", json=body)
    assert (answer.status_code, answer.json()) == (
        403,
        {"error": "Suggestions are disabled on this server."},
    )
    assert client.get("/frontend/settings").json()["suggestions"] is False


def test_health_and_readiness(client, engine):
    assert client.get("/health").json() == {"status": "ok"}
    # the models are loaded in the background
    wait_for(lambda: client.get("/ready").status_code == 200)
    assert client.get("/ready").json()["models"] == ["toy"]
    engine.ready = False
    assert client.get("/health").status_code == 200
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["status"], answer.headers["Retry-After"]) == (
        503,
        "restarting",
        "1",
    )
    client.app.services.draining = True
    assert client.get("/ready").json()["status"] == "draining"


def test_errors_of_unknown_paths_and_methods_are_json(client):
    for method, path, status, key in (
        ("GET", "/nowhere", 404, "error"),
        ("GET", "/translate", 405, "error"),
        ("GET", "/v2/nothing", 404, "message"),
        ("PUT", "/v2/translate", 405, "message"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, set(answer.json())) == (status, {key})
    assert client.get("/translate").headers["allow"] == "OPTIONS, POST"


ADDRESSES = [
    *sorted({route.path for router in ROUTERS for route in router.routes}),
    "/static/absent.js",
]


@pytest.mark.parametrize("prefix", ["", "/translator"])
def test_every_address_says_which_methods_it_takes(serve, prefix):
    client = serve(root_path=prefix)
    for path in ADDRESSES:
        path = prefix + re.sub(r"\{.*?\}", "x", path)
        answer = client.options(path)
        assert answer.status_code == 204 and not answer.content, path
        named = answer.headers["Allow"].split(", ")
        for method in ("TRACE", "DELETE", "GET", "HEAD", "POST", "PUT", "PATCH"):
            answer = client.request(method, path)
            assert (answer.status_code == 405) == (method not in named), (method, path)
            assert answer.status_code != 405 or answer.headers["Allow"].split(", ") == named


def test_an_unexpected_exception_is_a_500_without_details(client, engine, caplog):
    def broken(*arguments, **options):
        raise ZeroDivisionError("secret text of a user")

    engine.submit = broken
    answer = client.post("/translate", json={"q": "Hello", "source": "en", "target": "de"})
    assert answer.status_code == 500
    assert "secret" not in answer.text and "Zero" not in answer.text
    assert "x-request-id" in answer.headers


def test_request_ids_are_kept_or_made(client):
    assert (
        client.get("/health", headers={"X-Request-Id": "abc-1.2"}).headers["x-request-id"]
        == "abc-1.2"
    )
    for bad in ("a b", "x" * 65, "<script>"):
        made = client.get("/health", headers={"X-Request-Id": bad}).headers["x-request-id"]
        assert made != bad and len(made) == 32


@pytest.mark.parametrize(
    "origin", ["https://example.org", "chrome-extension://abc", "moz-extension://abc"]
)
@pytest.mark.parametrize("path", ["/translate", "/imme", "/kiss", "/hcfy", "/deeplx/translate"])
def test_cross_origin_requests(client, path, origin):
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, user-agent",
    }
    preflight = client.options(path, headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    allowed = preflight.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type", "user-agent"))
    for path in ("/languages", "/nowhere"):
        assert (
            client.get(path, headers={"Origin": "https://example.org"}).headers[
                "access-control-allow-origin"
            ]
            == "*"
        )
        assert client.get(path).headers["x-content-type-options"] == "nosniff"
        # a cache keeps responses with and without an origin apart
        assert "Origin" in client.get(path).headers["vary"]


def test_a_head_request_is_logged_and_counted_as_one(client, caplog):
    with caplog.at_level(logging.DEBUG):
        assert client.head("/languages").status_code == client.get("/languages").status_code == 200
    records = [record for record in caplog.records if record.name == "server.access"]
    assert [(record.route, record.method) for record in records] == [
        ("/languages", "HEAD"),
        ("/languages", "GET"),
    ]
    counted = client.get("/metrics").text
    for method in ("HEAD", "GET"):
        assert (
            f'attentive_http_requests_total{{method="{method}",route="/languages",status="200"}} '
            "1.0" in counted
        )


def test_metrics_have_the_free_part_of_the_disk_and_survive_its_folder(serve, tmp_path):
    data = tmp_path / "data"
    client = serve(data=data)
    [free] = re.findall(r"^attentive_data_free_ratio (\S+)$", client.get("/metrics").text, re.M)
    assert 0 < float(free) <= 1
    data.rename(tmp_path / "moved")
    answer = client.get("/metrics")
    assert answer.status_code == 200 and "data_free_ratio" not in answer.text
    assert "data_free_ratio" not in serve().get("/metrics").text


def test_the_log_says_why_a_request_was_refused_and_whose_it_was(serve, keys, caplog):
    secret, key = keys.create("Ann", characters_per_minute=10)
    client = serve(data=keys.folder, key_required=True)
    body = {"q": "Geheimnis", "source": "en", "target": "de"}
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    with caplog.at_level(logging.DEBUG):
        for given in (secret, secret, "wrong"):
            client.post("/translate", json=body | {"api_key": given}, headers=trace)
    lines = [vars(record) for record in caplog.records if record.name == "server.access"]
    shown = [
        {name: line.get(name) for name in ("status", "key", "reason", "detail")} for line in lines
    ]
    assert shown == [
        {"status": 200, "key": key.id, "reason": None, "detail": None},
        {
            "status": 429,
            "key": key.id,
            "reason": "rate",
            "detail": "The limit of characters per minute is 10.",
        },
        {"status": 403, "key": None, "reason": "Forbidden", "detail": "Invalid API key."},
    ]
    assert secret not in str(lines) and "Geheimnis" not in str(lines)


def test_the_log_has_the_request_but_not_the_text(client, caplog):
    with caplog.at_level(logging.DEBUG):
        client.post(
            "/translate", json={"q": "Geheimnis", "source": "en", "target": "de", "api_key": "K3Y"}
        )
        client.post("/translate?q=Geheimnis&source=en&target=tlhGeheimnis")
    [record] = [record for record in caplog.records if getattr(record, "status", 0) == 200]
    assert (record.route, record.method) == ("/translate", "POST")
    written = " ".join(
        str(vars(record)) for record in caplog.records if record.name.startswith("server")
    )
    assert "Geheimnis" not in written and "K3Y" not in written


def test_metrics_count_exactly(client, engine):
    engine.failures["bad"] = WorkerFailure("internal", "No.")
    for text in ("one", "two two", "bad", "42"):
        client.post("/translate", json={"q": text, "source": "en", "target": "de"})
    client.get("/nowhere/at/all")
    lines = dict(
        line.rsplit(" ", 1)
        for line in client.get("/metrics").text.splitlines()
        if not line.startswith("#")
    )
    assert (
        lines['attentive_http_requests_total{method="POST",route="/translate",status="200"}']
        == "3.0"
    )
    assert (
        lines['attentive_http_requests_total{method="POST",route="/translate",status="500"}']
        == "1.0"
    )
    assert (
        lines['attentive_http_requests_total{method="GET",route="unmatched",status="404"}'] == "1.0"
    )
    assert lines['attentive_request_success_total{finish_reason="stop"}'] == "2.0"
    assert lines['attentive_request_failures_total{kind="internal"}'] == "1.0"
    assert lines["attentive_source_tokens_total"] == "14.0"
    assert lines["attentive_generated_tokens_total"] == "12.0"
    assert lines["attentive_request_latency_seconds_count"] == "2.0"
    assert lines["attentive_queue_tokens"] == "0.0"
    for name in (
        "requests_running",
        "requests_waiting",
        "worker_restarts_total",
        "history_hits_total",
    ):
        assert f"attentive_{name}" in lines


def test_server_timing(client):
    answer = client.post("/translate", json={"q": "a b", "source": "en", "target": "de"})
    assert answer.headers["server-timing"] == "queue;dur=1.00, encode;dur=2.00, decode;dur=3.00"


HELLO = {"q": "Hello", "source": "en", "target": "de"}
BROWSER = {"Accept": "text/html"}


@pytest.fixture(params=["/translator", "/a/b-c", "/translate"])
def prefix(request) -> str:
    return request.param


@pytest.fixture(params=["kept", "removed"])
def send(request, serve, prefix):
    """Sends a request to an address of the proxy."""
    client = serve(root_path=prefix, body_bytes=1_024)

    def send(method: str, address: str, **options):
        assert address.startswith(prefix), f"{address} is outside of the prefix"
        path = address if request.param == "kept" else address.removeprefix(prefix) or "/"
        return client.request(method, path, follow_redirects=False, **options)

    send.keeps = request.param == "kept"
    return send


def test_every_address_is_under_the_prefix(send, prefix):
    assert send("POST", f"{prefix}/translate", json=HELLO).json()["translatedText"] == "olleH"
    for page in ("/", "/attention", "/docs"):
        html = send("GET", prefix + page, headers=BROWSER).text
        for link in [*re.findall(r'(?:href|src)="([^"#]+)"', html), "static/icon.svg"]:
            assert not link.startswith("/")
            assert (
                send("GET", f"{prefix}/{link.removeprefix('./')}", headers=BROWSER).status_code
                == 200
            ), link
    links = send("GET", f"{prefix}/").json()
    assert links["languages"] == f"{prefix}/languages"
    assert send("GET", links["openapi"]).json()["servers"] == [{"url": prefix}]


def test_redirects_and_errors_know_the_prefix(send, prefix):
    for path in ["/docs/", "/languages/", *([""] if send.keeps else [])]:
        location = send("GET", prefix + path, headers=BROWSER).headers["location"]
        assert location == f"http://testserver{prefix}{path.rstrip('/') or '/'}"
    for body, status in ((b"{}", 400), (b"x" * 2_000, 413)):
        deepl = send("POST", f"{prefix}/v2/translate", content=body)
        assert (deepl.status_code, set(deepl.json()), "x-trace-id" in deepl.headers) == (
            status,
            {"message"},
            True,
        )
    file = send(
        "POST", f"{prefix}/translate_file", files={"file": ("a.txt", b"Hello")}, data=HELLO
    ).json()
    assert f"{prefix}/download_file/" in file["translatedFileUrl"]


@pytest.mark.parametrize("wrong", ["translator", "/translator/", "/", "//x", "/a b", "http://x"])
def test_a_prefix_that_cannot_be_one_is_refused(serve, wrong):
    with pytest.raises(
        ValueError, match=r"--root-path \(ATTENTIVE_ROOT_PATH\) must look like /translator"
    ):
        serve(root_path=wrong)


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
    (
        "post",
        "/translate",
        ASK | {"q": ["Hello", "42"], "details": True, "alternatives": 1, "source": "auto"},
    ),
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
    assert {
        (method, path) for path, methods in DOCUMENT["paths"].items() for method in methods
    } == paths
    hidden = {route.path for route in ROUTES} - {route.path for route in DOCUMENTED}
    # every other one only repeats a described one with another method
    assert hidden == {"/docs", "/spec"}


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_answer_has_a_schema(path, method, operation):
    assert operation["summary"] and operation["tags"]
    assert "422" not in operation["responses"]  # validation errors are 400
    assert (
        path == "/suggest" or sum(status.startswith("2") for status in operation["responses"]) == 1
    )
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
                schema.get("properties")
                or schema.get("additionalProperties")
                or schema["type"] in ("string", "array")
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
        assert set(resolved(contents[FORM]["schema"]).get("required", [])) <= set(
            contents[FORM]["example"]
        )


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
    assert (
        page.headers["content-security-policy"] == PAGE_POLICY
        and page.headers["cache-control"] == "no-cache"
    )
    assert "unsafe" not in PAGE_POLICY and "http" not in PAGE_POLICY
    assert not re.search(r"<script(?![^>]* src=)|<style|style=", page.text)
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "static/swagger-ui-bundle.js" in links
    for link in links:
        assert client.get(f"/{link}").status_code == 200, link
