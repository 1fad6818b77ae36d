"""An error says what is wrong: the right status, and the name of the parameter, encoding or
store."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import sqlite3
import zlib
from unittest.mock import Mock

import pytest
from starlette.testclient import TestClient

from server.config import Settings
from server.errors import RESOURCES, SettingsError
from tests.support.servers.in_process import wait_for
from tests.support.servers.ports import free_port
from tests.unit.server.conftest import running_redis

ASK = {"q": "Hello", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "words"),
    [
        ("POST", "/score", {"translation": ""}, 400, "missing translation parameter"),
        ("POST", "/score", {"translation": []}, 400, "missing translation parameter"),
        ("POST", "/score", {"translation": [""]}, 400, "missing translation parameter"),
        ("POST", "/score", {"translation": "a", "q": ""}, 400, "missing q parameter"),
        ("POST", "/score", {"translation": "a", "masked_heads": "foo"}, 400, "masked_heads must"),
        ("POST", "/translate", {"masked_heads": "cross"}, 400, "masked_heads must"),
        ("GET", "/attention", {"vectors": "foo"}, 400, "vectors must"),
        ("GET", "/attention", {"vectors": "x" * 5_000}, 400, "vectors must"),
        ("GET", "/attention", {"masked_heads": "foo"}, 400, "masked_heads must"),
        ("GET", "/attention", {"translation": ""}, 400, "translation must not be empty"),
        ("POST", "/trace", {"masked_heads": "0.1"}, 400, "masked_heads must"),
        ("POST", "/translate", {"timeout": 1e-9, "q": ["a", "b"]}, 504, "time limit"),
        ("POST", "/translate", {"timeout": 1e-9, "q": "A text. " * 2_000}, 504, "time limit"),
        ("POST", "/translate", {"timeout": 0}, 400, "timeout must"),
        ("POST", "/translate", {"timeout": -1}, 400, "timeout must"),
    ],
)
def test_the_error_names_the_wrong_parameter(client, method, path, fields, status, words):
    answer = client.request(method, path, **{"params" if method == "GET" else "json": ASK | fields})
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("method", "path", "further"),
    [
        ("POST", "/translate", {}),
        ("POST", "/score", {"translation": "a"}),
        ("POST", "/trace", {}),
        ("GET", "/attention", {}),
        ("GET", "/attention", {"translation": "a"}),
    ],
)
def test_a_time_limit_that_has_passed_is_not_overload(client, method, path, further):
    fields = {"params" if method == "GET" else "json": ASK | further}
    assert (
        client.request(method, path, headers={"X-Request-Timeout": "1e-9"}, **fields).status_code
        == 504
    )


@pytest.mark.parametrize(
    "path", ["/translate", "/v2/translate", "/language/translate/v2", "/detect", "/translate_file"]
)
@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("br", bytes),
        ("zstd, gzip", bytes),
    ],
)
def test_a_compressed_body_is_refused_with_its_encoding(client, path, encoding, compress):
    body = compress(json.dumps(ASK).encode())
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    answer = client.post(path, content=body, headers=headers)
    assert answer.status_code == 415
    assert encoding.lower() in answer.text


def test_the_encoding_of_a_body_may_be_unnamed_or_identity(client):
    body, kind = json.dumps(ASK).encode(), {"Content-Type": "application/json"}
    for headers in (kind, kind | {"Content-Encoding": "identity"}):
        assert client.post("/translate", content=body, headers=headers).status_code == 200
    unnamed = client.post("/translate", content=gzip.compress(body), headers=kind)
    assert (unnamed.status_code, "gzip" in unnamed.text) == (415, True)
    # there is no body
    assert client.get("/languages", headers={"Content-Encoding": "gzip"}).status_code == 200


def test_pages_of_other_origins_may_use_every_method_that_a_route_has(client):
    methods = {
        method for route in client.app.routes for method in getattr(route, "methods", None) or ()
    } - {"HEAD"}
    assert {"DELETE", "PATCH", "PUT"} & methods
    for method in methods:
        headers = {"Origin": "https://a.example", "Access-Control-Request-Method": method}
        answer = client.options("/v2/glossaries/x", headers=headers)
        assert (
            answer.status_code == 200 and method in answer.headers["Access-Control-Allow-Methods"]
        )


@pytest.mark.parametrize("host", ["evil.example", "evil.example:1", "localhost", "[::1]"])
def test_the_address_of_a_file_does_not_come_from_the_host_header(serve, host):
    upload = {"files": {"file": ("a.txt", b"Hello")}, "data": {"source": "en", "target": "de"}}
    for settings, begin in (
        ({}, "http://testserver/download_file/"),
        ({"public_url": "https://t.example/mt/"}, "https://t.example/mt/download_file/"),
    ):
        answer = serve(**settings).post("/translate_file", headers={"Host": host}, **upload)
        assert answer.json()["translatedFileUrl"].startswith(begin)


def test_the_public_address_is_checked():
    with pytest.raises(SettingsError, match="ATTENTIVE_PUBLIC_URL"):
        Settings(public_url="t.example")


@pytest.mark.parametrize("name", ["a.xlf", "a.xliff"])
def test_a_document_type_is_named(client, name):
    for content in (
        b'<!DOCTYPE x [<!ENTITY a "b">]><xliff>&a;</xliff>',
        b"<!DOCTYPE x [<!ELEMENT x ANY>]><xliff/>",
    ):
        answer = client.post(
            "/translate_file",
            files={"file": (name, content)},
            data={"source": "en", "target": "de"},
        )
        assert (
            answer.status_code == 400 and "DOCTYPE" in answer.text and "damaged" not in answer.text
        )


def test_a_wrong_key_stays_refused_where_redis_has_lost_the_keys(serve, tmp_path, patient, capsys):
    from server.__main__ import main

    port = free_port()
    url = f"redis://127.0.0.1:{port}"
    with running_redis(tmp_path, port):
        assert main(["keys", "create", "Ann", "--state", url]) == 0
        secret = capsys.readouterr().out.strip()
        client = serve(state=url)

        def status(key: str) -> int:
            return client.post("/translate", json=ASK | {"api_key": key}).status_code

        assert (status(secret), status("wrong")) == (200, 403)
        assert client.portal.call(client.app.services.state.execute, "FLUSHALL")
        version = client.app.services.authenticator._keys
        wait_for(lambda: version._version == "")
        assert (status(secret), status("wrong")) == (200, 403)
        assert main(["keys", "create", "Bob", "--state", url]) == 0
        new = capsys.readouterr().out.strip()
        wait_for(lambda: status(new) == 200)
        assert (status(secret), status("wrong")) == (403, 403)


def test_a_full_redis_is_called_full(serve, tmp_path, patient):
    port = free_port()
    with running_redis(tmp_path, port, "--maxmemory", "1"):
        client = serve(state=f"redis://127.0.0.1:{port}")
        fields = {
            "name": "x",
            "source_lang": "EN",
            "target_lang": "DE",
            "entries": "a\tb",
            "entries_format": "tsv",
        }
        answer = client.post("/v2/glossaries", json=fields)
        assert answer.status_code == 503 and "full" in answer.json()["message"]


def full() -> sqlite3.Error:
    """Returns the error of a database that may have no further page."""
    with pytest.raises(sqlite3.OperationalError) as caught, sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (value BLOB)")
        database.execute("PRAGMA max_page_count = 2")
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")
    return caught.value


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
@pytest.mark.parametrize(
    ("error", "resource"),
    [
        *[
            (OSError(code, os.strerror(code)), resource.name)
            for code, resource in RESOURCES.items()
        ],
        (MemoryError(), "memory"),
        (RuntimeError("can't start new thread"), "processes and threads"),
        (full(), "disk space"),
    ],
)
def test_what_the_machine_has_no_more_of_is_said_to_the_caller_and_the_operator(
    client: TestClient,
    path: str,
    error: Exception,
    resource: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(client.app.services.translator, "translate", Mock(side_effect=error))  # type: ignore[attr-defined]
    answer = client.post(
        path, json={**ASK, "text": ["Hello"], "target_lang": "DE"} if "v2" in path else ASK
    )
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert f"out of {resource}" in answer.text
    assert re.search(f"out of {resource}: (raise|free)", caplog.text)
    assert "unexpected error" not in caplog.text


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "x"), OSError("x"), RuntimeError("x"), ValueError("x")]
)
def test_another_unexpected_error_is_a_500(
    client: TestClient, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.app.services.translator, "translate", Mock(side_effect=error))  # type: ignore[attr-defined]
    assert client.post("/translate", json=ASK).status_code == 500
