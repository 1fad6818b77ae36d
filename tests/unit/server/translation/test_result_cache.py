"""The result cache: what its keys cover, its bounds, and that an answer from it is a translation
like any other."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from model.search.options import DecodingOptions
from server.config import Settings
from server.engine.ipc.options import WorkerOptions
from server.services import Services
from server.text.glossary import Entry, TermIndex
from server.text.syntax.xml import Rules
from server.translation.catalog import ModelCatalog
from server.translation.result_cache import JSON, KEYED_SETTINGS, NOT_KEYED, ResultCache, size_of
from server.translation.types import Translation, TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, fake_catalog, fake_model
from tests.support.engine.translating import translated
from tests.support.servers.keys import KeyFile

REQUEST = TranslationRequest(texts=("Guten Tag",), source="auto", target="en")
OTHER = {
    "source": "de",
    "target": "fr",
    "format": "html",
    "split": "newline",
    "accepted": ("fr",),
    "markup": Rules(outline=False),
    "do_not_translate": ("Tag",),
    "localize_numbers": True,
    "best_beam": 3,
    "glossary": TermIndex([Entry("Tag", "day")]),
    "formality": "<formal>",
    "formality_required": True,
    "on_flag": "retry",
    "thorough": True,
    "model": "toy",
}
"""Another value of each field of a request that is in the keys."""
OTHER_OPTIONS = {
    "beam_size": 4,
    "length_penalty": 0.7,
    "normalization": "average",
    "early_stopping": True,
    "shrinking_beam": True,
    "max_length": 7,
    "hypotheses": 2,
    "prefix": (5,),
    "first_token": 6,
    "target": (7,),
    "no_repeat_ngram_size": 3,
    "loop_guard": True,
    "masked_heads": (("cross", 0, 0),),
    "rerank": True,
    "trace": True,
    "shortlist": "0123abcd",
}
COMPUTATION = ("cpu", "int8", "native")


def key(
    catalog: ModelCatalog | None = None,
    computation=COMPUTATION,
    settings: Settings | None = None,
    **changed,
) -> bytes:
    request = dataclasses.replace(REQUEST, **changed)
    return ResultCache(settings or Settings(), None).keys(
        request, catalog or fake_catalog(), computation
    )[0]


def test_every_field_of_a_request_is_in_the_key_or_named_as_irrelevant():
    names = {field.name for field in dataclasses.fields(TranslationRequest)}
    assert names == NOT_KEYED | set(OTHER) | {"options"}
    keys = [key(), *[key(**{name: value}) for name, value in OTHER.items()]]
    assert len(set(keys)) == len(keys)


def test_every_option_of_decoding_is_in_the_key():
    assert {field.name for field in dataclasses.fields(DecodingOptions) if field.init} == set(
        OTHER_OPTIONS
    )
    base = DecodingOptions(beam_size=2)
    others = [dataclasses.replace(base, **{name: value}) for name, value in OTHER_OPTIONS.items()]
    keys = [key(options=options) for options in (base, *others)]
    assert len(set(keys)) == len(keys)


def test_keys_depend_on_models_computation_and_settings():
    others = [
        key(),
        key(catalog=ModelCatalog([dataclasses.replace(fake_model(), version="2")])),
        key(catalog=ModelCatalog([dataclasses.replace(fake_model(), beam_size=4)])),
        key(computation=("cpu", "float32", "native")),
        key(settings=Settings(slots=8)),
        key(settings=Settings(shortlist="off")),
        key(texts=("Guten Tag!",)),
        key(texts=("Guten Tag", "Hello")),  # their language is detected together
        key(glossary=TermIndex([Entry("Tag", "date")])),
        key(glossary=OTHER["glossary"]),
    ]
    assert len(set(others)) == len(others)
    assert key() == key() and len(key()) == 32
    assert key(glossary=TermIndex([Entry("Tag", "day")])) == others[-1]
    assert key(source="de") == key(source="de", texts=("Guten Tag", "Hello"))


def test_every_option_of_a_worker_is_in_the_key_or_named_as_irrelevant():
    computation = {"device", "dtype"}
    irrelevant = {"threads", "isa", "max_batch_tokens", "sockets"}
    times = {"watchdog_seconds", "start_seconds", "load_seconds"}
    names = {field.name for field in dataclasses.fields(WorkerOptions)}
    assert names == computation | irrelevant | times | set(KEYED_SETTINGS)


def translation() -> Translation:
    return translated(FakeEngine(), "Hallo", "de", "en")


def found(cache: ResultCache, *names: bytes) -> list[bool]:
    return [bool(asyncio.run(cache.find([name]))) for name in names]


def test_the_least_recently_used_translation_is_dropped_first():
    one = translation()
    cache = ResultCache(Settings(cache_bytes=3 * size_of(one)), None)
    cache.add([b"a", b"b", b"c"], [one] * 3)
    assert found(cache, b"a") == [True]
    cache.add([b"d"], [one])
    assert found(cache, b"a", b"b", b"c", b"d") == [True, False, True, True]
    assert cache.bytes == 3 * size_of(one)
    large = ResultCache(Settings(cache_bytes=size_of(one) - 1), None)
    large.add([b"a"], [one])
    assert found(large, b"a") == [False] and large.bytes == 0


def test_a_translation_expires():
    now = [0.0]
    cache = ResultCache(Settings(cache_seconds=10.0), None, lambda: now[0])
    cache.add([b"a"], [translation()])
    now[0] = 9.9
    assert found(cache, b"a") == [True]
    now[0] = 10.0
    assert found(cache, b"a") == [False] and cache.bytes == 0


def ask(client: TestClient, headers: list[tuple[str, str]] | None = None, **fields):
    body = {"q": "Ein Haus. Ein Hund.", "source": "de", "target": "en"} | fields
    answer = client.post("/translate", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_repeated_text_is_answered_without_the_worker_and_equal_in_all_details(serve, engine):
    client = serve()
    fields = {"details": True, "alternatives": 2}
    first = ask(client, **fields).json()
    sent = len(engine.submitted)
    again = ask(client, **fields)
    second = again.json()
    assert len(engine.submitted) == sent
    assert first.pop("id") != second["id"]
    id = second.pop("id")
    assert second["details"].pop("timings") == dict.fromkeys(first["details"].pop("timings"), 0.0)
    assert first == second
    assert "cache" in again.headers["server-timing"]
    found = client.get("/attention", params={"id": id, "sentence": 1, "format": "json"}).json()
    assert found["id"] == id and found["source"]["text"] == "Ein Hund."
    metrics = client.get("/metrics").text
    assert (
        "attentive_cache_hits_total 1.0" in metrics
        and "attentive_cache_misses_total 1.0" in metrics
    )


def test_texts_of_a_list_are_found_one_by_one(serve, engine):
    client = serve()
    ask(client, q=["eins", "zwei"])
    engine.submitted.clear()
    assert ask(client, q=["drei", "zwei", "vier"]).json()["translatedText"] == [
        "ierd",
        "iewz",
        "reiv",
    ]
    assert len(engine.submitted) == 2


def test_a_stream_from_the_cache_has_the_same_sentences(serve, engine):
    client = serve()
    first = ask(client, stream=True).text
    sent = len(engine.submitted)
    second = ask(client, stream=True).text
    assert len(engine.submitted) == sent and first.count("event: sentence") == 2
    assert [line for line in first.splitlines() if '"sentence"' in line] == [
        line for line in second.splitlines() if '"sentence"' in line
    ]


def test_a_hit_needs_no_room_in_the_queue(serve, engine):
    client = serve(queue_tokens=1)
    ask(client)
    permit = client.app.services.translator.admission.admit(10_000)
    assert ask(client).status_code == 200
    assert (
        client.post("/translate", json={"q": "neu", "source": "de", "target": "en"}).status_code
        == 429
    )
    permit.release()


def test_rate_limits_count_hits(serve):
    client = serve(requests_per_minute=2)
    ask(client), ask(client)
    assert (
        client.post(
            "/translate", json={"q": "Ein Haus.", "source": "de", "target": "en"}
        ).status_code
        == 429
    )


@pytest.mark.parametrize(
    ("control", "read", "stored"),
    [
        ("no-store", False, False),
        ("max-age=0, No-Cache", False, True),
        ("max-age=0", True, True),
        (["max-age=0", "no-store"], False, False),
    ],
)
def test_cache_control_of_a_request(serve, engine, control, read, stored):
    lines = [control] if isinstance(control, str) else control
    client, headers = serve(), [("Cache-Control", line) for line in lines]
    ask(client, q="warm")
    engine.submitted.clear()
    ask(client, headers, q="warm")
    assert len(engine.submitted) == (0 if read else 1)
    engine.submitted.clear()
    id = ask(client, headers, q="neu").json()["id"]
    ask(client, q="neu")
    assert len(engine.submitted) == (1 if stored else 2)
    assert client.get("/attention", params={"id": id}).status_code == (200 if stored else 410)


def test_a_key_that_is_not_to_be_remembered_is_neither_in_the_cache_nor_in_the_history(
    serve, engine, tmp_path: Path, monkeypatch
):
    secret, _ = KeyFile(tmp_path).create("a", remembered=False)
    client = serve(data=tmp_path)
    for _ in range(2):
        id = ask(client, api_key=secret).json()["id"]
    assert len(engine.submitted) == 4
    assert client.get("/attention", params={"id": id, "api_key": secret}).status_code == 410
    asked = {"q": "Ein Haus.", "source": "de", "target": "en", "api_key": secret}
    added: list[object] = []
    monkeypatch.setattr(client.app.services.history, "add", added.append)
    assert client.get("/attention", params=asked).status_code == 200
    assert added == []


def test_without_bytes_there_is_no_cache(serve, engine):
    client = serve(cache_bytes=0)
    ask(client), ask(client)
    assert len(engine.submitted) == 4


def test_nothing_is_kept_while_the_computation_is_unknown_or_changes(monkeypatch):
    engine = FakeEngine()
    # Read at the beginning, for the record of the leg, and at the end.
    kinds = iter(
        [(), (), ("cpu", "int8", "eager"), ("cpu", "int8", "native"), ("cpu", "int8", "native")]
    )
    monkeypatch.setattr(FakeEngine, "computation", property(lambda _: next(kinds)))

    async def scenario() -> int:
        services = Services(Settings(), engine, fake_catalog())
        request = TranslationRequest(texts=("Hallo",), source="de", target="en")
        await services.translator.translate(request)  # unknown
        await services.translator.translate(request)  # eager at the beginning, native at the end
        await services.stop()
        return services.translator.cache.bytes

    assert asyncio.run(scenario()) == 0


def test_a_result_as_json_is_the_same_result():
    options, text = DecodingOptions(beam_size=3, hypotheses=3), "Das {name} ist ein Haus. Ein Hund."
    one = translated(FakeEngine(), text, "auto", "fr", options=options, thorough=True)
    assert len(one.legs) == 2 and one.detected is not None
    assert JSON.validate_json(JSON.dump_json(one, exclude_defaults=True)) == one
