"""Languages, health, metrics, and properties of every answer."""

from __future__ import annotations

import logging
import re

import pytest

from server.api.app import ROUTERS
from server.engine.client.status import WorkerFailure
from tests.support.servers.in_process import wait_for


def test_languages_with_and_without_a_body(client):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"", b"api_key=x"):  # libretranslatepy 2.1.1
        assert client.post("/languages", content=body, headers=form).json() == client.get("/languages").json()
    languages = client.get("/languages").json()
    assert [language["code"] for language in languages] == ["de", "en", "fr"]
    german = {"code": "de", "name": "German", "targets": ["de", "en", "fr"], "models": {"en": "toy"}, "scores": {}}
    german["formality"] = []
    assert languages[0] == german
    assert client.request("GET", "/languages", data={"api_key": ""}).json() == languages


def test_detection_is_best_first_with_whole_numbers(client):
    guesses = client.post("/detect", data={"q": "Bonjour tout le monde, comment allez-vous ?"}).json()
    assert guesses[0]["language"] == "fr"
    assert all(type(guess["confidence"]) is int and 0 <= guess["confidence"] <= 100 for guess in guesses)
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
    for key in ("frontendTimeout", "apiKeys", "keyRequired", "suggestions", "filesTranslation", "supportedFilesFormat"):
        assert key in settings


@pytest.mark.parametrize("body", [{"q": "a", "s": "b", "source": "en", "target": "de"}, {}])
def test_suggestions_are_rejected(client, body):
    answer = client.post("/suggest", json=body)
    assert (answer.status_code, answer.json()) == (403, {"error": "Suggestions are disabled on this server."})
    assert client.get("/frontend/settings").json()["suggestions"] is False


def test_health_and_readiness(client, engine):
    assert client.get("/health").json() == {"status": "ok"}
    wait_for(lambda: client.get("/ready").status_code == 200)  # the models are loaded in the background
    assert client.get("/ready").json()["models"] == ["toy"]
    engine.ready = False
    assert client.get("/health").status_code == 200
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["status"], answer.headers["Retry-After"]) == (503, "restarting", "1")
    client.app.state.services.draining = True
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


ADDRESSES = [*sorted({route.path for router in ROUTERS for route in router.routes}), "/static/absent.js"]


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
    assert client.get("/health", headers={"X-Request-Id": "abc-1.2"}).headers["x-request-id"] == "abc-1.2"
    for bad in ("a b", "x" * 65, "<script>"):
        made = client.get("/health", headers={"X-Request-Id": bad}).headers["x-request-id"]
        assert made != bad and len(made) == 32


@pytest.mark.parametrize("origin", ["https://example.org", "chrome-extension://abc", "moz-extension://abc"])
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
        assert client.get(path, headers={"Origin": "https://example.org"}).headers["access-control-allow-origin"] == "*"
        assert client.get(path).headers["x-content-type-options"] == "nosniff"
        assert "Origin" in client.get(path).headers["vary"]  # a cache keeps responses with and without an origin apart


def test_a_head_request_is_logged_and_counted_as_one(client, caplog):
    with caplog.at_level(logging.DEBUG):
        assert client.head("/languages").status_code == client.get("/languages").status_code == 200
    records = [record for record in caplog.records if record.name == "server.access"]
    assert [(record.route, record.method) for record in records] == [("/languages", "HEAD"), ("/languages", "GET")]
    counted = client.get("/metrics").text
    for method in ("HEAD", "GET"):
        assert f'attentive_http_requests_total{{method="{method}",route="/languages",status="200"}} 1.0' in counted


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
    shown = [{name: line.get(name) for name in ("status", "key", "reason", "detail")} for line in lines]
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
        client.post("/translate", json={"q": "Geheimnis", "source": "en", "target": "de", "api_key": "K3Y"})
        client.post("/translate?q=Geheimnis&source=en&target=tlhGeheimnis")
    [record] = [record for record in caplog.records if getattr(record, "status", 0) == 200]
    assert (record.route, record.method) == ("/translate", "POST")
    written = " ".join(str(vars(record)) for record in caplog.records if record.name.startswith("server"))
    assert "Geheimnis" not in written and "K3Y" not in written


def test_metrics_count_exactly(client, engine):
    engine.failures["bad"] = WorkerFailure("internal", "No.")
    for text in ("one", "two two", "bad", "42"):
        client.post("/translate", json={"q": text, "source": "en", "target": "de"})
    client.get("/nowhere/at/all")
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert lines['attentive_http_requests_total{method="POST",route="/translate",status="200"}'] == "3.0"
    assert lines['attentive_http_requests_total{method="POST",route="/translate",status="500"}'] == "1.0"
    assert lines['attentive_http_requests_total{method="GET",route="unmatched",status="404"}'] == "1.0"
    assert lines['attentive_request_success_total{finish_reason="stop"}'] == "2.0"
    assert lines['attentive_request_failures_total{kind="internal"}'] == "1.0"
    assert lines["attentive_source_tokens_total"] == "14.0"
    assert lines["attentive_generated_tokens_total"] == "12.0"
    assert lines["attentive_request_latency_seconds_count"] == "2.0"
    assert lines["attentive_queue_tokens"] == "0.0"
    for name in ("requests_running", "requests_waiting", "worker_restarts_total", "history_hits_total"):
        assert f"attentive_{name}" in lines


def test_server_timing(client):
    answer = client.post("/translate", json={"q": "a b", "source": "en", "target": "de"})
    assert answer.headers["server-timing"] == "queue;dur=1.00, encode;dur=2.00, decode;dur=3.00"
