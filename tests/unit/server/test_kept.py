"""Nothing of a text stays in memory where its caller asked for no storage, and no vocabulary of a
model that has left."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from model.search.options import DecodingOptions
from model.tokenizer import Tokenizer
from server import kept
from server.engine.ipc import transport
from server.text import vocabulary
from server.text.reading import stand_ins_of
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import wait_for
from tests.support.servers.keys import KeyFile


def requests(mark: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields requests that use all that prepares, checks and finishes a text."""
    short = f"{mark} paid 1,234.56 EUR to <b>{mark}</b> at {mark}.example.org/7 on 3 May."
    codes = f"Call {mark}() with %s and {{{mark}}}; {mark} {mark} 12:30, it's x{mark}1."
    long = f"<{mark}>Read {mark} &amp; wait</{mark}>. " + f"The tall {mark} dogs ran home. " * 80
    pair: dict[str, Any] = {"source": "en", "target": "de"}
    yield "/translate", {"q": [short, codes, long], "format": "html", **pair}
    yield (
        "/translate",
        {"q": codes, "source": "auto", "target": "de", "on_flag": "retry", "alternatives": 2},
    )
    yield "/translate", {"q": short, "do_not_translate": [f"the {mark}"], **pair}
    yield "/translate", {"q": short, "glossary": [{"source": mark, "target": mark.title()}], **pair}
    yield "/translate", {"q": "Hello there.", "target_prefix": mark, **pair}
    yield "/detect", {"q": long}
    yield "/score", {"q": "Hello there.", "translation": f"{mark} da.", **pair}
    yield "/v2/translate", {"text": [short, long], "target_lang": "DE", "tag_handling": "xml"}


def places_of(halves: tuple[str, str]) -> list[str]:
    """Returns what refers to a text with this mark."""
    gc.collect()
    mark = "".join(halves)
    marks: dict[type, Any] = {str: mark, bytes: mark.encode()}
    found = []
    for holder in gc.get_objects():
        for value in gc.get_referents(holder):
            if (sought := marks.get(type(value))) is not None and sought in value:
                found.append(f"{type(holder).__name__}: {value[:60]!r}")
    return found


def sent(client: TestClient, headers: dict[str, str], seed: int) -> tuple[str, str]:
    """Sends all requests with a mark, and returns the mark in two parts."""
    mark = "".join(random.Random(seed).choices("bcdfghklmnprstvz", k=14))
    for path, body in requests(mark):
        assert client.post(path, json=body, headers=headers).status_code == 200, path
    return mark[:7], mark[7:]


@pytest.mark.parametrize("by", ["header", "key"])
def test_no_text_stays_in_memory(
    serve: Callable[..., TestClient], keys: KeyFile, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(kept, "SECONDS", 0.05)
    settings: dict[str, Any] = {"data": keys.folder} if by == "key" else {}
    key = keys.create("a", remembered=False)[0] if by == "key" else ""
    client = serve(**settings)
    halves = sent(
        client, {"Authorization": f"Bearer {key}"} if key else {"Cache-Control": "no-store"}, 1
    )
    wait_for(lambda: not places_of(halves), 30)


def test_no_text_of_a_file_stays_in_memory_when_its_job_has_ended(
    client: TestClient, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends after what the request that began it has left was forgotten."""
    engine.gate = threading.Event()
    monkeypatch.setattr(kept, "SECONDS", 0.05)
    mark = "".join(random.Random(3).choices("bcdfghklmnprstvz", k=14))
    halves = (mark[:7], mark[7:])
    text = "\n".join(body["q"][2] for _, body in requests(mark) if "format" in body)
    sent = client.post(
        "/v2/document",
        files={"file": ("a.html", text.encode())},
        data={"source_lang": "EN", "target_lang": "DE"},
        headers={"Cache-Control": "no-store"},
    ).json()
    wait_for(lambda: engine.submitted and not kept._waiting, 30)
    engine.gate.set()
    path, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
    wait_for(lambda: client.post(path, json=key).json()["status"] == "done", 60)
    del text
    wait_for(lambda: not places_of(halves), 30)


def test_texts_that_may_be_stored_stay_for_the_next_request(client: TestClient) -> None:
    assert places_of(sent(client, {}, 2))


def test_forced_tokens_are_kept_by_no_process() -> None:
    """They are a text; all other options are those of many."""
    forced = [
        DecodingOptions(prefix=(71, 72)),
        DecodingOptions(target=(73,)),
        DecodingOptions(beam_size=4),
    ]
    caches = (transport._common, transport._common_options)
    for options in forced:
        before = [cache.cache_info().currsize for cache in caches]
        options.with_defaults(3).limited_to("abc")
        assert transport.Unpacker().feed(transport.pack([options])) == [options]
        added = [
            cache.cache_info().currsize - size for cache, size in zip(caches, before, strict=True)
        ]
        if not options.is_common:
            assert added == [0, 0]
    assert forced[2].with_defaults(3) is forced[2].with_defaults(3)


def test_no_vocabulary_of_a_model_that_has_left_stays() -> None:
    file = next((Path(__file__).parents[3] / "weights").glob("*/*.model"))
    tokenizer = Tokenizer(file)
    stand_ins_of(tokenizer)
    vocabulary._writes(tokenizer, "\u0142")
    tokenizer.encode("The dogs ran.")
    tokenizer.beginnings(["dogs"])
    left = weakref.ref(tokenizer)
    kept.forget()
    assert not tokenizer._beginnings
    del tokenizer
    gc.collect()
    assert left() is None
