"""POST /translate, and its server-sent events."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time

import pytest

from server.api import sse as streaming
from server.engine.client.status import WorkerFailure
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import fake_model

HELLO = {"q": "Hello world", "source": "en", "target": "de"}


def ask(client, **fields):
    return client.post("/translate", json={"source": "en", "target": "de"} | fields)


@pytest.mark.parametrize(
    "request_parts",
    [
        {"json": HELLO},
        {"data": HELLO},
        {"params": HELLO},
        {"params": {"source": "en", "target": "de"}, "data": {"q": "Hello world", "api_key": ""}},
        {"files": {"q": (None, "Hello world"), "source": (None, "en"), "target": (None, "de")}},
        {"json": HELLO | {"api_key": None, "secret": "x", "unknown": {"nested": [1]}}},
        {"json": HELLO | {"source": "EN", "target": "De", "format": "TEXT", "alternatives": "0"}},
        {
            "content": json.dumps(HELLO),
            "headers": {"content-type": "application/json; charset=utf-8"},
        },
        {"content": json.dumps(HELLO), "headers": {"content-type": ""}},
    ],
)
def test_every_way_to_send_parameters(client, request_parts):
    answer = client.post("/translate", **request_parts).json()
    assert answer["translatedText"] == "dlrow olleH" and set(answer) == {"translatedText", "id"}


def test_a_list_gives_lists(client):
    form = client.post(
        "/translate", data={"q": ["One", "Two"], "source": "en", "target": "de"}
    ).json()
    assert form["translatedText"] == ["enO", "owT"]
    answer = ask(client, q=["One", "Two", ""]).json()
    assert answer["translatedText"] == ["enO", "owT", ""]
    assert len(set(answer["id"])) == 3


def test_auto_reports_the_detected_language(client):
    text = "Guten Morgen, wie geht es Ihnen heute?"
    answer = ask(client, q=text, source="auto", target="en").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert type(answer["detectedLanguage"]["confidence"]) is int
    answer = ask(client, q=[text, text], source="auto", target="en").json()
    assert [guess["language"] for guess in answer["detectedLanguage"]] == ["de", "de"]


def test_auto_copies_text_of_no_served_language(client):
    for text in ("12345", "😀"):
        answer = ask(client, q=text, source="auto", target="fr").json()
        assert answer["translatedText"] == text
        assert answer["detectedLanguage"] == {"language": "en", "confidence": 0}
    for text, language in (
        ("你好，世界", "zh"),
        ("Dove posso trovare la stazione più vicina?", "it"),
    ):
        answer = ask(client, q=text, source="auto", target="fr").json()
        assert answer["translatedText"] == text
        assert answer["detectedLanguage"]["language"] == language
        assert answer["detectedLanguage"]["confidence"] >= 99


@pytest.mark.parametrize(
    ("text", "target", "named"),
    [
        ("Dove posso trovare la stazione più vicina?", "fr", "in Italian (it)"),
        ("你好，世界", "de", "in Chinese (zh)"),
        ("Где находится ближайший вокзал?", "de", "in Russian (ru)"),
        ("Wo ist der Bahnhof, bitte?", "de", ""),  # in the target language
        ("Where is the station, please?", "de", ""),
        ("12345", "fr", ""),
    ],
)
def test_a_warning_names_a_language_that_no_model_translates(client, text, target, named):
    for stream in (False, True):
        answer = ask(client, q=text, source="auto", target=target, details=True, stream=stream)
        body = json.loads(answer.text.split("data: ")[-1]) if stream else answer.json()
        warnings = [warning for warning in body["details"]["warnings"] if "no model" in warning]
        assert warnings == (
            [f"The text is {named}, which no model here translates; it was copied."]
            if named
            else []
        )


def test_alternatives(client):
    assert ask(client, q="ab", alternatives=2).json()["alternatives"] == ["bax", "baxx"]
    assert ask(client, q=["ab", "cd"], alternatives=1).json()["alternatives"] == [["bax"], ["dcx"]]
    assert ask(client, q="ab", alternatives=11).status_code == 400


def test_options_reach_the_decoder(client, engine):
    ask(client, q="ab", beam_size=5, length_penalty=1.5, max_length=7)
    options = engine.submitted[-1][2]
    assert (options.beam_size, options.length_penalty, options.max_length) == (5, 1.5, 7)


def test_the_beam_width_is_that_of_the_request_the_server_or_the_model(serve, engine):
    catalog = ModelCatalog([dataclasses.replace(fake_model(), beam_size=4)])
    ours, theirs = serve(catalog, beam_size=2), serve(catalog)
    for client, fields, expected in (
        (theirs, {}, 4),
        (theirs, {"beam_size": 3}, 3),
        (theirs, {"alternatives": 5}, 6),
        (ours, {}, 2),
        (ours, {"alternatives": 2}, 3),
    ):
        ask(client, q="ab", **fields)
        assert engine.submitted[-1][2].beam_size == expected


def test_details_have_sentences_scores_and_timings(client):
    details = ask(client, q="One. 42.", details=True).json()["details"]
    assert details["route"] == [
        {"model": "toy", "source": "en", "target": "de", "beam_size": 1, "reranked": False}
    ]
    assert details["pivot"] is None
    [[first, second]] = details["sentences"]
    assert (first["source"], first["target"], first["copied"]) == ("One.", ".enO", False)
    assert len(first["hypotheses"][0]["token_scores"]) == 5
    assert second["copied"]
    assert set(details["timings"]) == {"queue", "encode", "decode", "first_token"}


def test_a_pair_without_a_model_goes_through_a_pivot(client, engine):
    answer = ask(client, q="Eins\nZwei", source="de", target="fr", details=True).json()
    assert answer["translatedText"] == "Eins\nZwei"  # reversed twice
    assert answer["details"]["pivot"] == "en"
    assert [leg["target"] for leg in answer["details"]["route"]] == ["en", "fr"]
    assert len(engine.submitted) == 4


@pytest.mark.parametrize(
    ("sent", "meant"), [("pb", "pt-BR"), ("PT_br", "pt-BR"), ("zh", "zh-Hans"), ("zt", "zh-Hant")]
)
def test_language_aliases(serve, sent, meant):
    client = serve(catalog=ModelCatalog([fake_model(pairs=[("en", meant)])]))
    assert ask(client, q="abc", target=sent).json()["translatedText"] == "cba"


@pytest.mark.parametrize(
    ("parts", "status", "word"),
    [
        ({"json": HELLO | {"q": []}}, 400, "missing q"),
        ({"json": {"q": "a", "source": "en"}}, 400, "missing target"),
        ({"json": HELLO | {"source": ""}}, 400, "source"),
        ({"json": HELLO | {"target": "auto"}}, 400, "not supported"),
        ({"json": HELLO, "headers": {"X-Request-Timeout": "soon"}}, 400, "X-Request-Timeout"),
        ({"json": HELLO, "headers": {"X-Request-Timeout": "-1"}}, 400, "X-Request-Timeout"),
        (
            {"json": HELLO | {"q": "x" * 100_001}},
            400,
            "request (100001) exceeds text limit (100000)",
        ),
        ({"json": HELLO | {"q": ["x"] * 1_001}}, 400, "request (1001) exceeds text limit (1000)"),
        ({"json": [1]}, 400, "object"),
        ({"json": "text"}, 400, "object"),
        ({"content": b"[" * 100_000, "headers": {"content-type": "application/json"}}, 400, "JSON"),
        (
            {"content": b"q=%FF", "headers": {"content-type": "application/x-www-form-urlencoded"}},
            400,
            "UTF-8",
        ),
        (
            {
                "content": b"\xff=1",
                "headers": {"content-type": "application/x-www-form-urlencoded"},
            },
            400,
            "UTF-8",
        ),
        (
            {
                "content": b"&a=1" * 20_000,
                "headers": {"content-type": "application/x-www-form-urlencoded"},
            },
            400,
            "10,000",
        ),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, ""),
        (
            {"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=y"}},
            400,
            "",
        ),
        ({"content": b"<q/>", "headers": {"content-type": "application/xml"}}, 415, "json"),
        (
            {"content": b"x" * 10_000_001, "headers": {"content-type": "application/json"}},
            413,
            "bytes",
        ),
    ],
)
def test_invalid_input_gets_one_sentence(client, parts, status, word):
    answer = client.post("/translate", **parts)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert word in answer.json()["error"]
    assert len(answer.json()["error"]) < 300


def test_a_failed_sentence_fails_the_request_with_its_reason(client, engine):
    engine.failures = {
        "poison": WorkerFailure("poison", "This text crashed the worker twice."),
        "lost": WorkerFailure("unknown_model", "The model is not loaded."),
        "memory": WorkerFailure("out_of_memory", "No memory."),
        "wrong": WorkerFailure("invalid", "The beam is larger than the worker's slots."),
    }
    for text, status in (("poison", 500), ("lost", 503), ("wrong", 400), ("memory", 503)):
        answer = ask(client, q=["fine", text])
        assert (answer.status_code, answer.json()) == (
            status,
            {"error": engine.failures[text].message},
        )
    assert ask(client, q="lost").headers["retry-after"] == "1"


def test_a_deadline_ends_the_request_and_its_work(client, engine):
    engine.delay = 30
    answer = client.post("/translate", json=HELLO, headers={"X-Request-Timeout": "0.5"})
    assert answer.status_code == 504
    assert engine.cancelled == 1
    assert ask(client, q="x", timeout=0.05).status_code == 504


def test_short_requests_take_precedence_over_documents(client, engine):
    ask(client, q="One.")
    ask(client, q="\n".join(f"Line {'x' * i} a." for i in range(40)))
    assert [priority for *_, priority, _ in engine.submitted] == [0] + [1] * 40


def test_the_characters_of_a_request_times_its_beam_width_are_limited(serve):
    # the default width allows the whole limit
    whole = serve(char_limit=300, beam_char_limit=400, beam_size=4)
    assert ask(whole, q="a" * 300).status_code == 200
    client = serve(char_limit=300, beam_char_limit=400)
    body = {"source": "en", "target": "de"}
    assert (
        client.post("/translate", json=body | {"q": "a" * 100, "beam_size": 4}).status_code == 200
    )
    assert client.post("/translate", json=body | {"q": "a" * 300}).status_code == 200
    for options in ({"beam_size": 5}, {"alternatives": 4}):
        refused = client.post("/translate", json=body | {"q": "a" * 100} | options)
        assert refused.status_code == 413
        assert refused.json()["error"] == (
            "100 characters with a beam width of 5 are over the limit of 80 for this beam width; "
            "send less text, a smaller beam_size or no reranking."
        )


def test_details_show_the_flags_of_each_sentence(client):
    details = ask(client, q="The cat sat down.", max_length=3, details=True).json()["details"]
    [[sentence]] = details["sentences"]
    assert (sentence["flags"], sentence["confidence"]) == (["truncated"], None)
    assert details["warnings"] == ["Sentence 1: the translation ends before the sentence does."]
    details = ask(client, q="42", details=True).json()["details"]
    assert details["sentences"][0][0]["flags"] == [] and details["warnings"] == []
    assert ask(client, q=["The cat sat down.", "42"], max_length=3).headers["X-Warning"] == (
        "1 of 2 sentences may be wrong: truncated"
    )
    assert "X-Warning" not in ask(client, q="42").headers


def test_warnings_of_a_route_with_a_pivot_name_the_step(client):
    fields = {
        "q": "Das Haus steht",
        "source": "de",
        "target": "fr",
        "max_length": 3,
        "details": True,
    }
    assert client.post("/translate", json=fields).json()["details"]["warnings"] == [
        "Sentence 1 (de to en): the translation ends before the sentence does.",
        "Sentence 1 (en to fr): the translation ends before the sentence does.",
    ]


@pytest.mark.parametrize(
    ("server", "asked", "route"),
    [
        (False, {"rerank": True}, (4, True)),
        (False, {"rerank": True, "beam_size": 3}, (3, True)),
        (True, {}, (4, True)),
        (True, {"rerank": None}, (4, True)),
        (True, {"rerank": ""}, (4, True)),
        (True, {"rerank": False}, (1, False)),
        (False, {}, (1, False)),
        (False, {"rerank": True, "beam_size": 1}, (1, False)),
        (False, {"rerank": True, "alternatives": 5}, (6, True)),
    ],
)
def test_the_request_or_the_server_chooses_reranking(serve, server, asked, route):
    answer = ask(serve(rerank=server), q="One two", details=True, **asked).json()
    [step] = answer["details"]["route"]
    assert (step["beam_size"], step["reranked"]) == route
    assert len(answer["details"]["sentences"][0][0]["hypotheses"]) == 1 + asked.get(
        "alternatives", 0
    )


@pytest.mark.parametrize(
    ("value", "text"), [("mark", "owt"), ("source", "one two"), ("SOURCE", "one two")]
)
def test_on_flag(client, value, text):
    assert ask(client, q="one two", max_length=3, on_flag=value).json()["translatedText"] == text


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
    assert sorted(
        (data["text"], data["sentence"]) for name, data in found if name == "sentence"
    ) == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert found[-1][1]["translatedText"] == [".enO !owT", "eerhT"]


@pytest.mark.parametrize(
    ("fields", "status"), [({"target": "xx"}, 400), ({"q": ""}, 400), ({"q": "x" * 100_001}, 400)]
)
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
    assert (
        events(client.post("/translate", json=FIELDS | {"target": "en"}))[-1][1]["translatedText"]
        == TEXT
    )


def test_comments_are_sent_while_no_event_comes(client, engine, monkeypatch):
    monkeypatch.setattr(streaming, "HEARTBEAT_SECONDS", 0.05)
    engine.delay = 0.5
    answer = client.post("/translate", json=FIELDS | {"stream_tokens": True})
    assert ": still at work" in answer.text
    assert events(answer)[-1][0] == "translation"


def test_a_disconnect_cancels_the_work(serve, engine):
    client = serve()
    services = client.app.services
    # the model is loaded in the loop of the client
    client.post("/translate", json=FIELDS | {"stream": False})
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
