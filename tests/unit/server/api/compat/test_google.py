"""Google's interface and extensions with the fake worker, and requests as Zotero's PDF Translate, Pot
and TranslationPlugin send them to Google's page. A translation is the text in reverse order."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import quote

import pytest

from server.api.compat.google import google_code

PATH = "/language/translate/v2"


@pytest.mark.parametrize(
    "parts",
    [
        {"json": {"q": ["Hello"], "source": "en", "target": "de", "format": "text"}},
        {
            "json": {
                "q": ["Hello"],
                "source": "en",
                "target": "de",
                "cid": [],
                "format": None,
                "model": None,
            }
        },
        {"params": {"q": "Hello", "source": "en", "target": "de", "key": "any"}},
    ],
)
def test_translate(client, parts):
    assert client.post(PATH, **parts).json() == {
        "data": {"translations": [{"translatedText": "olleH"}]}
    }


def test_a_query_string_and_a_detected_source(client):
    answer = client.get(
        PATH, params={"q": ["Where is the dog?", "Wo ist der Hund?"], "target": "fr"}
    ).json()
    assert [entry["detectedSourceLanguage"] for entry in answer["data"]["translations"]] == [
        "en",
        "de",
    ]


def test_detect_and_languages(client):
    [[guess]] = client.post(PATH + "/detect", json={"q": "Wo ist der Hund?"}).json()["data"][
        "detections"
    ]
    assert guess["language"] == "de" and 0 <= guess["confidence"] <= 1
    languages = client.get(PATH + "/languages", params={"target": "en"}).json()["data"]["languages"]
    assert {"language": "de", "name": "German"} in languages
    assert "name" not in client.get(PATH + "/languages").json()["data"]["languages"][0]


def test_errors_have_the_form_of_google(client):
    for answer in (
        client.post(PATH, json={"q": "x"}),
        client.post(PATH, json={"q": "x", "target": "xx"}),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["status"]) == (
            400,
            400,
            "INVALID_ARGUMENT",
        )
        assert isinstance(error["message"], str)


IMMERSIVE = {"text_list": ["Hello"], "source_lang": "en", "target_lang": "de"}
KISS = {"text": "Hello", "from": "en", "to": "de"}
HCFY = {"name": "Attentive", "text": "Hello", "destination": ["德语", "英语"], "source": "英语"}
DEEPLX = {"text": "Hello", "source_lang": "EN", "target_lang": "DE"}
REQUESTS = {"/imme": IMMERSIVE, "/kiss": KISS, "/hcfy": HCFY, "/deeplx/translate": DEEPLX}
ENGLISH, GERMAN = "Where is the dog?", "Wo ist der Hund?"
DATA = {"code": 200, "alternatives": [], "source_lang": "EN", "target_lang": "DE", "method": "Free"}
PAIR = {"detected_source_lang": "en", "text": "olleH"}


@pytest.mark.parametrize(
    ("path", "changes", "expected"),
    [
        ("/imme", {}, {"translations": [PAIR]}),
        (
            "/imme",
            {"text_list": ["Hello", "", "Hello"]},
            {"translations": [PAIR, PAIR | {"text": ""}, PAIR]},
        ),
        (
            "/imme",
            {"text_list": ["{0}", "@0#"]},
            {"translations": [PAIR | {"text": mark} for mark in ("{0}", "@0#")]},
        ),
        (
            "/imme",
            {"text_list": [ENGLISH, GERMAN], "source_lang": "auto", "target_lang": "fr"},
            {
                "translations": [
                    PAIR | {"text": ENGLISH[::-1]},
                    {"detected_source_lang": "de", "text": GERMAN},
                ]
            },  # by way of en
        ),
        ("/kiss", {}, {"text": "olleH", "src": "en"}),
        (
            "/kiss",
            {"text": GERMAN, "from": "auto", "to": "en"},
            {"text": GERMAN[::-1], "src": "de"},
        ),
        ("/kiss", {"text": None, "texts": ["Hello"]}, [{"text": "olleH", "src": "en"}]),
        ("/hcfy", {}, {"text": "Hello", "from": "英语", "to": "德语", "result": ["olleH"]}),
        (
            "/hcfy",
            {"text": ENGLISH, "source": None},
            {"text": ENGLISH, "from": "英语", "to": "德语", "result": [ENGLISH[::-1]]},
        ),
        (  # the text is in the first of the languages
            "/hcfy",
            {"text": f"{GERMAN}\n\n{GERMAN}", "source": ""},
            {
                "text": f"{GERMAN}\n\n{GERMAN}",
                "from": "德语",
                "to": "英语",
                "result": [GERMAN[::-1], "", GERMAN[::-1]],
            },
        ),
        ("/deeplx/translate", {}, DATA | {"data": "olleH"}),
        (
            "/deeplx/translate",
            {"text": "<b0>Hello</b0>", "tag_handling": "html"},
            DATA | {"data": "<b0>olleH</b0>"},
        ),
        (
            "/deeplx/translate",
            {"text": GERMAN, "source_lang": "auto", "target_lang": "EN"},
            DATA | {"data": GERMAN[::-1], "source_lang": "DE", "target_lang": "EN"},
        ),
    ],
)
def test_the_answer_has_the_form_that_the_extension_reads(client, path, changes, expected):
    empty = {"Authorization": "Bearer "}  # KISS without a key
    answer = client.post(path, json=REQUESTS[path] | changes, headers=empty)
    body = answer.json()
    assert path != "/deeplx/translate" or isinstance(body.pop("id"), int)
    assert (answer.status_code, body) == (200, expected)


@pytest.mark.parametrize("path", REQUESTS)
def test_an_error_is_a_sentence_where_the_extension_looks_for_it(client, path):
    text = "text_list" if path == "/imme" else "text"
    target = {"/kiss": "to", "/hcfy": "destination"}.get(path, "target_lang")
    for changes, words in (({target: "xx"}, "xx is not"), ({text: ""}, "missing text")):
        answer = client.post(path, json=REQUESTS[path] | changes)
        assert answer.status_code == 400
        message = (
            answer.json()["error"] if path != "/deeplx/translate" else answer.json()["message"]
        )
        assert words in message and answer.json().get("code", 400) == 400


@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_is_in_the_address_or_in_the_header(serve, keys, path):
    secret, _ = keys.create("Ann", requests_per_minute=2)
    client = serve(data=keys.folder, key_required=True)
    address = {"params": {"token": secret}}
    header = {"headers": {"Authorization": f"Bearer {secret}"}}
    answers = [
        client.post(path, json=REQUESTS[path], **way) for way in ({}, address, header, address)
    ]
    assert [answer.status_code for answer in answers] == [403, 200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1


PARTS = [("dt", part) for part in ("at", "bd", "ex", "ld", "md", "qca", "rw", "rm", "ss", "t")]
TEXTS = [
    "Hello",
    "The cat sleeps. Where is the dog?\n\nHello!",
    "a & b = 100 % + 1; 😀",
    "  Hello  ",
    "Hello " * 300,
]
CODES = {
    "zh": "zh-CN",
    "zh-Hans": "zh-CN",
    "zh-Hant": "zh-TW",
    "zt": "zh-TW",
    "he": "iw",
    "iw": "iw",
    "jv": "jw",
    "nb": "no",
}
CODES |= {"no": "no", "fil": "tl", "pt-BR": "pt", "en": "en", "nn": "nn", "auto": "auto"}


class Status(Exception):
    """A status that is not 200."""


def zotero(client, text: str, source: str = "en", target: str = "de", base: str = "") -> str:
    fields = (
        f"sl={source}&tl={target}&hl=en&dt=at&dt=bd&dt=ex&dt=ld&dt=md&dt=qca&dt=rw&dt=rm&dt=ss&dt=t"
    )
    rest = f"&source=bh&ssel=0&tsel=0&kc=1&tk=520.91&q={quote(text)}"
    answer = client.get(f"{base}/translate_a/single?client=gtx&{fields}{rest}")
    if answer.status_code != 200:
        raise Status(answer.status_code)
    return "".join(part[0] for part in answer.json()[0] if part and part[0])


def pot(client, text: str, source: str = "en", target: str = "de", base: str = "") -> str:
    fields = {
        "client": "gtx",
        "sl": source,
        "tl": target,
        "hl": target,
        "ie": "UTF-8",
        "oe": "UTF-8",
        "otf": "1",
    }
    fields |= {"ssel": "0", "tsel": "0", "kc": "7", "q": text}
    url = f"{base}/translate_a/single?" + "&".join(
        f"{name}={quote(value)}" for name, value in [*PARTS, *fields.items()]
    )
    answer = client.get(url, headers={"content-type": "application/json"})
    if answer.status_code != 200:
        raise Status(answer.status_code)
    body = answer.json()
    assert not body[1]  # else Pot reads a dictionary
    return "".join(part[0] for part in body[0] if part[0])


def plugin(client, text: str, source: str = "en", target: str = "de", base: str = "") -> str:
    parts = [("dt", part) for part in ("t", "bd", "rm", "qca", "ex")]
    fields = [
        ("sl", source),
        ("tl", target),
        ("client", "gtx"),
        *parts,
        ("dj", "1"),
        ("ie", "UTF-8"),
        ("oe", "UTF-8"),
    ]
    answer = client.post(
        "/translate_a/single", params=[*fields, ("hl", "zh-CN"), ("tk", "520.91")], data={"q": text}
    )
    if answer.status_code != 200:
        raise Status(answer.status_code)
    body = answer.json()
    assert isinstance(body["src"], str) and "dict" not in body
    names = body["ld_result"]
    assert names["srclangs"] == [body["src"]] and 0 <= names["srclangs_confidences"][0] <= 1
    assert all(isinstance(one["backend"], int) and one["orig"] == text for one in body["sentences"])
    return "".join(one["trans"] for one in body["sentences"])


CLIENTS = [zotero, pot, plugin]


@pytest.mark.parametrize("ask", CLIENTS)
def test_the_translation_is_where_each_program_reads_it(client, ask):
    for text in TEXTS:
        expected = client.post(
            "/translate", json={"q": text, "source": "en", "target": "de"}
        ).json()["translatedText"]
        assert ask(client, text) == expected
    assert ask(client, GERMAN, "auto", "en") == GERMAN[::-1]


@pytest.mark.parametrize("ask", CLIENTS)
def test_an_error_has_its_status(client, ask):
    for fault in (
        {"text": ""},
        {"text": "Hello", "target": "xx"},
        {"text": "Hello", "source": "xx"},
    ):
        with pytest.raises(Status, match="400"):
            ask(client, **fault)


@pytest.mark.parametrize("ask", [zotero, pot])
def test_a_program_that_appends_to_an_address_sends_a_key_with_it(serve, keys, ask):
    secret, _ = keys.create("Ann")
    client = serve(data=keys.folder, key_required=True)
    with pytest.raises(Status, match="403"):
        ask(client, "Hello")
    for name in ("key", "token"):
        assert ask(client, "Hello", base=f"/translate_a/single?{name}={secret}&x=") == "olleH"


def get(client, path: str = "/translate_a/single", **fields: Any) -> Any:
    return client.get(path, params={"tl": "de", "q": "Hello"} | fields).json()


def test_the_language_of_the_text_is_where_google_names_it(client):
    stated = get(client, sl="en")
    assert stated == [
        [["olleH", "Hello", None, None, 1]],
        None,
        "en",
        None,
        None,
        None,
        1.0,
        [],
        [["en"], None, [1.0], ["en"]],
    ]
    detected = get(client, q=GERMAN, tl="en")
    assert (
        detected[2] == "de"
        and 0.5 < detected[6] <= 1.0
        and detected[8] == [["de"], None, [detected[6]], ["de"]]
    )
    assert get(client, q=GERMAN, tl="en", dj="1")["src"] == "de"
    assert get(client, q=["Hello", "Cat"], sl="en")[0] == [
        ["olleH", "Hello", None, None, 1],
        ["taC", "Cat", None, None, 1],
    ]


def test_languages_have_the_codes_that_google_knows():
    assert {code: google_code(code) for code in CODES} == CODES


def test_documentation_is_html_in_a_list(client):
    """TranslationPlugin reads the first text of the innermost list, and the language behind it."""
    query = {"sl": "en", "tl": "de", "client": "te_lib", "format": "html", "tk": "1.1"}
    page = '<p class="a">Hello <b>cat</b></p>'
    for source, shape in (("en", str), ("auto", list)):
        answer = client.post("/translate_a/t", params=query | {"sl": source}, data={"q": page})
        [first] = answer.json()
        assert answer.status_code == 200 and isinstance(first, shape)
        text, language = (first, "en") if shape is str else first
        assert sorted(re.findall("<.*?>", text)) == sorted(re.findall("<.*?>", page))
        assert "olleH" in text and language == "en"
    assert get(client, "/translate_a/t", q=["Hello", "Cat"], sl="en") == ["olleH", "taC"]
    plain = get(client, "/translate_a/t", q="a < b & c", sl="en")
    assert plain == [get(client, "/translate_a/single", q="a < b & c", sl="en")[0][0][0]]


@pytest.mark.parametrize(
    "fault", [{"ie": "latin1"}, {"oe": "gbk"}, {"format": "xml"}, {"tl": ""}, {"dj": "maybe"}]
)
def test_what_would_change_the_answer_is_refused(client, fault):
    for path in ("/translate_a/single", "/translate_a/t"):
        assert next(iter(fault)) in get(client, path, **fault)["error"]


def test_the_plugin_keeps_the_number_of_this_hour(client):
    answer = client.get("/translate_a/element.js")
    [found] = re.findall(r"tkk='(\d+).(-?\d+)'", answer.text)
    assert abs(int(found[0]) - time.time() / 3600) < 2
    assert answer.headers["content-type"].startswith("text/javascript")


def test_a_browser_may_call_from_anywhere(client):
    answer = client.get(
        "/translate_a/single",
        params={"tl": "de", "q": "Hello"},
        headers={"Origin": "https://a.example"},
    )
    assert answer.headers["access-control-allow-origin"] == "*"
