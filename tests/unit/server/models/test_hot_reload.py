"""Models are replaced while requests run."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from server.config import Settings
from server.engine.ipc.messages import ModelLoaded
from server.models import hot_reload
from server.services import Services
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, fake_model

UNCHANGED = {"added": [], "replaced": [], "removed": [], "failed": [], "errors": {}}


def sized(name: str, size: int, **changes) -> ServedModel:
    return dataclasses.replace(fake_model(name), bytes=size, **changes)


async def test_models_are_added_replaced_and_removed_while_requests_run(monkeypatch):
    """All requests during the reload succeed."""
    folder = [sized("one", 1, version="1"), fake_model("gone", [("en", "es")])]

    engine = FakeEngine(delay=0.01)
    services = Services(Settings(), engine, ModelCatalog(folder))
    monkeypatch.setattr(hot_reload, "find_served", lambda settings: (list(folder), {}))
    await services.start()
    await services.loaded()
    done = 0

    async def ask() -> None:
        nonlocal done
        while not stop.is_set():
            request = TranslationRequest(texts=(f"text {done}",), source="de", target="fr")
            [answer] = await services.translator.translate(request)
            assert answer.text == request.texts[0]
            done += 1

    async def more() -> None:
        enough = done + 8
        while done < enough:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    stop = asyncio.Event()
    clients = [asyncio.create_task(ask()) for _ in range(8)]
    await more()
    folder[:] = [sized("one", 1, version="2"), fake_model("new", [("en", "it")])]
    changed = await services.models.reload()
    assert changed == {
        "added": ["new"],
        "replaced": ["one"],
        "removed": ["gone"],
        "failed": [],
        "errors": {},
    }
    assert set(engine.loaded) == {"one@2", "new@"}
    assert await services.models.reload() == UNCHANGED
    await more()
    stop.set()
    await asyncio.gather(*clients)
    assert services.translator.catalog.languages == ("de", "en", "fr", "it")
    await services.stop()


async def test_a_replacement_that_cannot_be_loaded_leaves_the_old_model_in_service(monkeypatch):
    engine = FakeEngine()
    services = Services(Settings(), engine, ModelCatalog([sized("one", 1, version="1")]))
    await services.start()
    await services.loaded()

    async def fails(model, folder):
        return ModelLoaded(model, error="The file is torn.")

    engine.opened = fails
    monkeypatch.setattr(
        hot_reload, "find_served", lambda settings: ([sized("one", 1, version="2")], {})
    )
    changed = await services.models.reload()
    assert changed == UNCHANGED | {"failed": ["one"], "errors": {"one": "The file is torn."}}
    assert services.translator.catalog.model("one@1") is not None
    assert services.models.errors == {"one": "The file is torn."}
    await services.stop()


async def test_a_model_whose_folder_cannot_be_read_stays_in_service(monkeypatch):
    old = [
        sized("one", 1, folder=Path("weights/first")),
        sized("two", 1, folder=Path("weights/second")),
    ]
    services = Services(Settings(), FakeEngine(), ModelCatalog(old))
    await services.start()
    await services.loaded()
    errors = {"first": "config.json is not JSON."}
    monkeypatch.setattr(hot_reload, "find_served", lambda settings: ([old[1]], errors))
    changed = await services.models.reload()
    assert (changed["removed"], changed["errors"]) == ([], errors)
    assert {model.name for model in services.translator.catalog.models} == {"one", "two"}
    await services.stop()


def test_readiness_shows_errors_of_present_models_without_folders(serve):
    client = serve()
    services = client.app.services
    present = services.translator.catalog.models[0].key
    status = dataclasses.replace(
        services.engine.workers.status(),
        errors={present: "/srv/weights/toy/config.json is not JSON.", "gone@1": "It is torn."},
        details={"reason": "It could not be written to /root/.cache/x."},
    )
    services.engine.workers.status = lambda: status
    services.models._note("other", "'weights/other/a b.json' cannot be read.")
    answer = client.get("/ready").json()
    name = present.partition("@")[0]
    assert answer["errors"] == {
        name: "config.json is not JSON.",
        "other": "'a b.json' cannot be read.",
    }
    assert answer["details"] == {"reason": "It could not be written to x."}


def test_reloading_requires_the_admin_key(serve, monkeypatch):
    monkeypatch.setattr(hot_reload, "find_served", lambda settings: ([fake_model()], {}))
    assert serve().post("/admin/reload").status_code == 403
    client = serve(admin_key="s3cret")
    assert (
        client.post("/admin/reload", headers={"Authorization": "Bearer wrong"}).status_code == 403
    )
    assert (
        client.post("/admin/reload", headers={"Authorization": "Bearer é".encode()}).status_code
        == 403
    )
    assert client.post("/admin/reload", headers={"Authorization": "s3cret"}).status_code == 403
    assert (
        client.post("/admin/reload", headers={"Authorization": "Basic s3cret"}).status_code == 403
    )
    answer = client.post("/admin/reload", headers={"Authorization": "Bearer s3cret"})
    assert answer.json() == UNCHANGED


def test_translations_of_a_replaced_model_cannot_be_inspected(client, monkeypatch):
    id = client.post("/translate", json={"q": "Hello", "source": "en", "target": "de"}).json()["id"]
    client.app.services.translator.catalog = ModelCatalog([sized("toy", 1, version="2")])
    assert client.get("/attention", params={"id": id}).status_code == 410
