"""Models that are downloaded while the server runs: requests for them, failures, and who may manage
them."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.config import Settings
from server.errors import SettingsError
from server.models import hot_reload
from server.models import pulls as model_pulls
from server.models.pulls import ModelPulls
from server.services import Services
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FakeEngine, fake_model
from tests.support.servers.in_process import wait_for

EMBEDDED = dataclasses.replace(fake_model("embedded"), preference=-1)
HERE = {"Host": "localhost:8000"}
FINAL = "Mozilla publishes no model for en-it."
ASK = {"q": "Hello", "source": "en", "target": "it"}


@pytest.fixture
def start(serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., TestClient]:
    """Starts a server whose downloads end with the sentences in `outcomes`; after an empty one the
    model is there."""

    def started(outcomes: list[str], **settings: str) -> TestClient:
        async def download(pulls: ModelPulls, pull: model_pulls.Pull) -> str:
            outcome = outcomes.pop(0) if outcomes else "Nothing more."
            if isinstance(outcome, asyncio.Event):
                await outcome.wait()
                outcome = outcomes.pop(0)
            if outcome == FINAL:
                pull.final = True
            if not outcome:
                (tmp_path / "models" / "firefox-en-it").mkdir(parents=True)
            return outcome

        def found(settings: Settings):
            pulled = [
                dataclasses.replace(fake_model(folder.name, [("en", "it")]), folder=folder)
                for folder in sorted((tmp_path / "models").glob("*"))
            ]
            return [EMBEDDED, *pulled], {}

        monkeypatch.setattr(ModelPulls, "_download", download)
        monkeypatch.setattr(hot_reload, "find_served", found)
        monkeypatch.setattr(model_pulls, "PAUSES", (1,))
        client = serve(ModelCatalog([EMBEDDED]), data=tmp_path, **settings)
        client.app.services.authenticator._keys = None
        client._transport.client = ("127.0.0.1", 50_000)
        client.headers |= HERE
        return client

    return started


def pulls(client: TestClient) -> list[dict]:
    return client.get("/ready").json()["pulls"]


def test_a_model_on_its_way_is_503_and_one_whose_download_failed_400_until_it_is_served(
    start,
) -> None:
    gate = asyncio.Event()
    outcomes = [gate, "The disk is full."]
    client = start(outcomes, models="en-it")
    asked = ({}, {"target": "IT"}, {"source": "auto"})
    for fields in asked:
        answer = client.post("/translate", json=ASK | fields)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
        assert answer.json() == {
            "error": "The model firefox/en-it is being downloaded; try again later."
        }
    client.portal.call(gate.set)
    wait_for(lambda: pulls(client)[0]["error"])
    for fields in asked:
        answer = client.post("/translate", json=ASK | fields)
        assert answer.status_code == 400 and "Retry-After" not in answer.headers
        assert (
            "The model firefox/en-it could not be downloaded: The disk is full."
            in answer.json()["error"]
        )
        body = {"text": ["Hello"], "target_lang": "IT"}
        assert "The disk is full." in client.post("/v2/translate", json=body).json()["message"]
    outcomes.append("")  # before it, each try fails
    # with what is there
    assert client.post("/translate", json=ASK | {"target": "de"}).status_code == 200
    assert client.post("/translate", json=ASK | {"target": "es"}).status_code == 400
    wait_for(lambda: not pulls(client))
    assert client.post("/translate", json=ASK).status_code == 200
    assert client.get("/admin/models").json()["pulled"] == ["firefox-en-it"]


def test_a_pair_that_no_model_serves_is_refused(start) -> None:
    assert start([], models="en-fr").post("/translate", json=ASK).status_code == 400


def test_any_downloads_the_published_model_of_a_pair_that_no_model_serves(start) -> None:
    client = start([asyncio.Event()], models="any")
    assert not pulls(client)
    for fields, status in (
        ({"target": "de"}, 200),  # served
        ({"target": "tlh"}, 400),  # unknown
        ({"source": "tlh"}, 400),
        ({"source": "it", "target": "it"}, 400),
        ({"source": "EN-us"}, 503),
        ({}, 503),
    ):
        answer = client.post("/translate", json=ASK | fields)
        assert (answer.status_code, answer.headers.get("Retry-After")) == (
            status,
            "10" if status == 503 else None,
        )
    wait_for(lambda: pulls(client))
    assert [pull["name"] for pull in pulls(client)] == ["firefox/en-it"]
    client.post("/v2/translate", json={"text": ["Hello"], "source_lang": "FR", "target_lang": "DE"})
    assert len(pulls(client)) == 1, "through English"


def test_models_are_listed_requested_and_deleted(start, tmp_path: Path) -> None:
    client = start(["Mozilla publishes no model."])
    listed = client.get("/admin/models", params={"source": "en", "target": "de"}).json()
    assert listed["available"][0]["name"] == listed["stronger"] == "firefox/en-de"
    assert client.post("/admin/models", json={"name": "en-it"}).status_code == 202
    wait_for(lambda: pulls(client)[0]["state"] == "failed")
    assert client.delete("/admin/models/firefox-en-it").status_code == 200 and not pulls(client)
    (tmp_path / "models" / "firefox-en-it").mkdir(parents=True)  # another server has downloaded it
    client.post("/admin/models", json={"name": "firefox/en-it"})
    wait_for(lambda: not pulls(client))
    assert client.post("/admin/models", json={"name": "en-it"}).json()["state"] == "served"
    assert (
        client.get("/admin/models", params={"source": "en", "target": "it"}).json()["stronger"]
        == ""
    )
    assert client.delete("/admin/models/firefox-en-it").status_code == 200
    assert not (tmp_path / "models" / "firefox-en-it").exists()
    assert client.post("/translate", json=ASK).status_code == 400
    for name, status in (("embedded", 404), ("nothing", 404), ("a/b", 404)):
        assert client.delete(f"/admin/models/{name}").status_code == status
    assert client.post("/admin/models", json={"name": "../x"}).status_code == 400


@pytest.mark.parametrize(
    ("headers", "address", "allowed"),
    [
        ({}, "127.0.0.1", True),
        ({"Host": "[::1]:8000"}, "::1", True),
        ({"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"}, "127.0.0.1", True),
        ({"Origin": "https://evil.example"}, "127.0.0.1", False),
        ({"Origin": "null"}, "127.0.0.1", False),
        ({"Origin": "http://localhost:9000"}, "127.0.0.1", False),
        ({"Sec-Fetch-Site": "cross-site"}, "127.0.0.1", False),
        # DNS rebinding
        ({"Host": "evil.example", "Origin": "http://evil.example"}, "127.0.0.1", False),
        ({"Host": "localhost.evil.example"}, "127.0.0.1", False),
        ({"X-Forwarded-For": "192.0.2.1"}, "127.0.0.1", False),
        ({}, "192.0.2.1", False),
        ({"Host": "[::1"}, "127.0.0.1", False),
    ],
)
@pytest.mark.parametrize("key", ["", "s3cret"])
def test_only_the_operator_manages_models(start, headers, address, allowed, key: str) -> None:
    client = start([], admin_key=key)
    client._transport.client = (address, 50_000)
    foreign = "Origin" in headers or "Sec-Fetch-Site" in headers
    authorized = {"Authorization": f"Bearer {key}"} if key else {}
    expected = allowed or bool(key and (not foreign or headers.get("Host") == "evil.example"))
    for method, path in (("GET", ""), ("POST", ""), ("DELETE", "/x"), ("POST", "reload")):
        url = "/admin/reload" if path == "reload" else f"/admin/models{path}"
        answer = client.request(method, url, headers=headers | authorized, json={"name": "?"})
        assert (answer.status_code != 403) == expected, (method, path, answer.text)
    assert (
        client.get("/frontend/settings", headers=headers | authorized).json()["manageModels"]
        == expected
    )
    if key:
        assert client.get("/admin/models", headers=headers).status_code == 403


def test_without_an_admin_key_keys_close_the_administration(serve, keys, tmp_path: Path) -> None:
    keys.create("alice")
    client = serve(data=tmp_path)
    client._transport.client = ("127.0.0.1", 50_000)
    assert client.get("/admin/models", headers=HERE).status_code == 403


def test_a_wrong_name_in_the_setting_is_refused_at_the_start() -> None:
    with pytest.raises(
        SettingsError, match=r"--models \(ATTENTIVE_MODELS\): 'german' is not the name"
    ):
        Services(Settings(models="en-de,german"), FakeEngine(), ModelCatalog([EMBEDDED]))


def test_what_a_publisher_refuses_for_good_is_not_tried_again_until_it_is_requested(start) -> None:
    outcomes = [FINAL, ""]
    client = start(outcomes, models="en-it")
    wait_for(lambda: pulls(client) and pulls(client)[0]["final"])
    for _ in range(3):
        assert FINAL in client.post("/translate", json=ASK).json()["error"]
    time.sleep(1.2)  # PAUSES
    assert outcomes == [""]
    assert client.post("/admin/models", json={"name": "en-it"}).status_code == 202
    wait_for(lambda: not pulls(client))
    assert client.post("/translate", json=ASK).status_code == 200


def test_any_does_not_request_a_refused_model_again(start) -> None:
    outcomes = [FINAL, ""]
    client = start(outcomes, models="any")
    assert client.post("/translate", json=ASK).status_code == 503
    wait_for(lambda: pulls(client) and pulls(client)[0]["final"])
    assert client.post("/translate", json=ASK).status_code == 400
    assert outcomes == [""]


def test_two_models_of_a_publisher_are_downloaded_at_a_time_and_a_slow_one_delays_no_other(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[str] = []

    async def download(pulls: ModelPulls, pull: model_pulls.Pull) -> str:
        running.append(pull.name)
        await asyncio.Event().wait()
        return ""

    client = start([])
    monkeypatch.setattr(ModelPulls, "_download", download)
    slow = [f"team/opus-{number}" for number in range(5)]
    for name in [*slow, "firefox/en-it", "argos/en-it", "firefox/en-es", "firefox/en-fr"]:
        assert client.post("/admin/models", json={"name": name}).status_code == 202
    wait_for(lambda: len(running) == 5)
    time.sleep(0.1)
    assert sorted(running) == [*(["argos/en-it", "firefox/en-es", "firefox/en-it"]), *slow[:2]]


@pytest.mark.parametrize("required", [False, True])
def test_ready_names_the_missing_models_of_the_operator(start, required: bool) -> None:
    outcomes = ["The disk is full."]
    client = start(outcomes, models="en-it", require_models=required)
    wait_for(lambda: pulls(client) and pulls(client)[0]["error"])
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["status"]) == (
        (503, "starting") if required else (200, "degraded")
    )
    assert answer.json()["missing"] == ["firefox/en-it"]
    assert "attentive_models_missing 1.0" in client.get("/metrics").text
    outcomes.append("")
    wait_for(lambda: client.get("/ready").json()["status"] == "ready")
    assert (
        client.get("/ready").json()["missing"] == []
        and "attentive_models_missing 0.0" in client.get("/metrics").text
    )
    client.delete("/admin/models/firefox-en-it")
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded"), (
        "once ready, no model makes it unready"
    )
