"""Requests with and without API keys, and the callers they identify."""

from __future__ import annotations

import json

import pytest

from server.access.admission import Admission
from server.access.authentication import Authenticator
from server.config import Settings
from server.errors import SettingsError
from tests.support.servers.in_process import wait_for

HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    "parts",
    [
        {"json": HELLO | {"api_key": "KEY"}},
        {"data": HELLO | {"api_key": "KEY"}},
        {"params": HELLO | {"api_key": "KEY"}},
        {"json": HELLO, "headers": {"Authorization": "Bearer KEY"}},
    ],
)
def test_a_key_is_accepted_in_body_query_and_header(serve, keys, parts):
    secret, _ = keys.create("someone")
    client = serve(data=keys.folder, key_required=True)
    good = json.loads(json.dumps(parts).replace("KEY", secret))
    assert client.post("/translate", **good).status_code == 200
    assert client.post("/translate", **parts).status_code == 403


def test_the_log_names_a_revoked_key_and_no_secret(serve, keys, caplog):
    (old, key), (_, _) = keys.create("old"), keys.create("new")
    keys.revoke(key.id)
    client = serve(data=keys.folder)
    with caplog.at_level("INFO", "server.access"):
        for secret in (old, "unknown"):
            headers = {
                "Authorization": f"Bearer {secret}",
                "traceparent": f"00-{'4b' * 16}-{'f0' * 8}-01",
            }
            assert client.post("/translate", json=HELLO, headers=headers).status_code == 403
    lines = [vars(line) for line in caplog.records if line.name == "server.access"]
    assert [(line["reason"], line.get("key")) for line in lines] == [
        ("Forbidden", key.id),
        ("Forbidden", None),
    ]
    assert old not in str(lines) and "unknown" not in str(lines)


@pytest.mark.parametrize(
    ("method", "path", "parts"),
    [
        ("POST", "/translate", {"json": HELLO}),
        ("POST", "/detect", {"json": {"q": "Hello"}}),
        ("GET", "/attention", {"params": HELLO}),
        ("POST", "/v2/translate", {"json": {"text": ["x"], "target_lang": "DE"}}),
        ("GET", "/v2/usage", {}),
        ("POST", "/language/translate/v2", {"json": HELLO}),
        (
            "POST",
            "/translate_file",
            {"files": {"file": ("a.txt", b"Hello")}, "data": {"source": "en", "target": "de"}},
        ),
    ],
)
def test_a_request_without_a_required_key_is_rejected_before_any_work(
    serve, engine, keys, method, path, parts
):
    client = serve(data=keys.folder, key_required=True)
    assert client.request(method, path, **parts).status_code == 403
    assert not engine.submitted and not engine.attended
    assert client.get("/frontend/settings").json()["keyRequired"] is True


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/translate", {"json": HELLO}),
        ("/v2/translate", {"json": {"text": ["Hello"], "target_lang": "DE", "source_lang": "EN"}}),
        ("/language/translate/v2", {"json": HELLO}),
        (
            "/translate_file",
            {"files": {"file": ("a.txt", b"Hello")}, "data": {"source": "en", "target": "de"}},
        ),
        (
            "/v2/document",
            {
                "files": {"file": ("a.txt", b"Hello")},
                "data": {"source_lang": "EN", "target_lang": "DE"},
            },
        ),
    ],
)
def test_the_weight_of_a_key_reaches_admission_and_worker(
    serve, engine, keys, monkeypatch, path, parts
):
    admitted: list[tuple[str, float]] = []
    admit = Admission.admit

    def spied(self, *parts, **options):
        if "weight" in options:  # the bytes of documents have none
            admitted.append((options["caller"], options["weight"]))
        return admit(self, *parts, **options)

    monkeypatch.setattr(Admission, "admit", spied)
    secret, key = keys.create("someone", weight=2.0)
    client = serve(data=keys.folder, cache_bytes=0)
    assert client.post(path, **parts).status_code == 200
    assert (
        client.post(path, **parts, headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    )
    if path == "/v2/document":
        wait_for(lambda: len(engine.weights) == 2)
    assert [weight for _, weight in admitted] == engine.weights == [1.0, 2.0]
    assert admitted[1][0] == f"key {key.id}"


def test_required_keys_need_a_data_folder():
    with pytest.raises(SettingsError):
        Authenticator(Settings(key_required=True), None)
