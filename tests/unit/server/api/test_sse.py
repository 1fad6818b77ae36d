"""Translations as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from server.api import sse as streaming
from server.engine.client.status import WorkerFailure

TEXT = "First one. Second one! Third?"
FIELDS = {"q": TEXT, "source": "en", "target": "de", "stream": True}


def events(answer) -> list[tuple[str, dict]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in answer.text.split("\n\n") if block.startswith("event: ")]
    pairs = [block.removeprefix("event: ").split("\ndata: ") for block in blocks]
    return [(name, json.loads(data)) for name, data in pairs]


def test_sentences_in_order_then_the_whole(client):
    found = events(client.post("/translate", json=FIELDS))
    assert [name for name, _ in found] == ["sentence"] * 3 + ["translation"]
    assert [data["source"] for _, data in found[:-1]] == ["First one.", "Second one!", "Third?"]
    plain = client.post("/translate", json=FIELDS | {"stream": False}).json()
    assert found[-1][1]["translatedText"] == plain["translatedText"]
    assert " ".join(data["translatedText"] for _, data in found[:-1]) == plain["translatedText"]


def test_a_flagged_sentence_names_its_flags(client):
    found = events(client.post("/translate", json=FIELDS | {"max_length": 3}))
    assert [data["flags"] for name, data in found if name == "sentence"] == [["truncated"]] * 3
    found = events(client.post("/translate", json=FIELDS))
    assert not any("flags" in data for _, data in found)


def test_tokens_events_extend_the_translation(client):
    found = events(client.post("/translate", json=FIELDS | {"q": "Hello", "stream_tokens": True}))
    tokens = [data["translatedText"] for name, data in found if name == "tokens"]
    assert tokens == ["o", "ol", "oll", "olle", "olleH"]
    assert found[-1][1]["translatedText"] == "olleH"


def test_events_of_a_list_have_the_index_of_the_text(client):
    found = events(client.post("/translate", json=FIELDS | {"q": ["One. Two!", "Three"]}))
    assert sorted((data["text"], data["sentence"]) for name, data in found if name == "sentence") == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert found[-1][1]["translatedText"] == [".enO !owT", "eerhT"]


@pytest.mark.parametrize(("fields", "status"), [({"target": "xx"}, 400), ({"q": ""}, 400), ({"q": "x" * 100_001}, 400)])
def test_an_error_before_the_first_event_has_its_status(client, fields, status):
    answer = client.post("/translate", json=FIELDS | fields)
    assert answer.status_code == status
    assert "error" in answer.json()


def test_a_later_error_is_an_event(client, engine):
    engine.failures["Third?"] = WorkerFailure("internal", "The worker failed.")
    found = events(client.post("/translate", json=FIELDS))
    assert found[-1][0] == "error"
    assert found[-1][1]["status"] == 500


def test_same_language_needs_no_sentences(client):
    assert events(client.post("/translate", json=FIELDS | {"target": "en"}))[-1][1]["translatedText"] == TEXT


def test_comments_are_sent_while_no_event_comes(client, engine, monkeypatch):
    monkeypatch.setattr(streaming, "HEARTBEAT_SECONDS", 0.05)
    engine.delay = 0.5
    answer = client.post("/translate", json=FIELDS | {"stream_tokens": True})
    assert ": still at work" in answer.text
    assert events(answer)[-1][0] == "translation"


def test_a_disconnect_cancels_the_work(serve, engine):
    client = serve()
    services = client.app.state.services
    client.post("/translate", json=FIELDS | {"stream": False})  # the model is loaded in the loop of the client
    engine.delay = 30.0

    async def go() -> None:
        from server.translation.types import TranslationRequest

        wanted = TranslationRequest(texts=("Hello",), source="en", target="de")
        answer = await streaming.stream(services.translator, wanted, True, lambda done: {})
        body = answer.body_iterator
        await anext(body)
        await body.aclose()
        await asyncio.sleep(0.05)

    began = time.monotonic()
    asyncio.run(go())
    assert engine.cancelled == 1
    assert time.monotonic() - began < engine.delay
