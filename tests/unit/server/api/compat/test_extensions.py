"""Requests as browser extensions send them, and what the extensions read of the answers. The translation of the fake engine is
the text in reverse order."""

from __future__ import annotations

import pytest

IMMERSIVE = {"text_list": ["Hello {0} world"], "source_lang": "en", "target_lang": "de"}
KISS = {"text": "Hello", "from": "en", "to": "de"}
HCFY = {"name": "Attentive", "text": "Hello", "destination": ["德语", "英语"], "source": "英语"}
DEEPLX = {"text": "Hello", "source_lang": "EN", "target_lang": "DE"}
REQUESTS = {"/imme": IMMERSIVE, "/kiss": KISS, "/hcfy": HCFY, "/deeplx/translate": DEEPLX}
ENGLISH, GERMAN = "Where is the dog?", "Wo ist der Hund?"


def post(client, path: str, **changes):
    answer = client.post(path, json=REQUESTS[path] | changes)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_immersive_translate(client):
    [one] = post(client, "/imme")["translations"]
    assert one["detected_source_lang"] == "en"
    assert one["text"].count("{0}") == 1
    texts = ["Hello", "", "Tag"]
    many = post(client, "/imme", text_list=texts)["translations"]
    assert [entry["text"] for entry in many] == ["olleH", "", "gaT"]
    found = post(client, "/imme", source_lang="auto", target_lang="fr", text_list=[ENGLISH, GERMAN])["translations"]
    assert [entry["detected_source_lang"] for entry in found] == ["en", "de"]


def test_kiss_translator(client):
    headers = {"Authorization": "Bearer "}  # as it sends without a key
    assert client.post("/kiss", json=KISS, headers=headers).json() == {"text": "olleH", "src": "en"}
    batch = {"texts": ["Hello", "World"], "from": "en", "to": "de"}
    assert [entry["text"] for entry in client.post("/kiss", json=batch, headers=headers).json()] == ["olleH", "dlroW"]
    assert post(client, "/kiss", text=GERMAN, **{"from": "auto", "to": "en"})["src"] == "de"


def test_hcfy(client):
    assert post(client, "/hcfy") == {"text": "Hello", "from": "英语", "to": "德语", "result": ["olleH"]}
    lines = post(client, "/hcfy", text=f"{GERMAN}\n\n{GERMAN}", source="")
    assert (lines["from"], lines["to"]) == ("德语", "英语")  # the text is in the first language
    assert lines["result"] == [GERMAN[::-1], "", GERMAN[::-1]]
    without = {name: value for name, value in HCFY.items() if name != "source"}
    found = client.post("/hcfy", json=without | {"text": ENGLISH}).json()
    assert (found["from"], found["to"]) == ("英语", "德语")


def test_deeplx(client):
    answer = post(client, "/deeplx/translate")
    assert (answer["code"], answer["data"], answer["alternatives"]) == (200, "olleH", [])
    assert (answer["source_lang"], answer["target_lang"], type(answer["id"])) == ("EN", "DE", int)
    marked = post(client, "/deeplx/translate", text="<b0>Hello</b0>", tag_handling="html")
    assert marked["data"] == "<b0>olleH</b0>"
    assert post(client, "/deeplx/translate", text=GERMAN, source_lang="auto", target_lang="EN")["source_lang"] == "DE"


@pytest.mark.parametrize("path", REQUESTS)
def test_an_error_is_a_sentence_where_the_extension_looks_for_it(client, path):
    field = "destination" if path == "/hcfy" else "to" if path == "/kiss" else "target_lang"
    text = next(name for name in REQUESTS[path] if name.startswith("text"))
    for body, words in (({field: ["xx"] if path == "/hcfy" else "xx"}, "xx is not"), ({text: ""}, "missing text")):
        answer = client.post(path, json=REQUESTS[path] | body)
        error = answer.json()
        assert answer.status_code == 400
        if path == "/deeplx/translate":
            assert (set(error), error["code"]) == ({"code", "message"}, 400)
        assert words in (error["message"] if path == "/deeplx/translate" else error["error"])


@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_is_in_the_address_or_in_the_header(serve, keys, path):
    secret, _ = keys.create("Ann", requests_per_minute=2)
    client = serve(data=keys.folder, key_required=True)
    ways = [{}, {"params": {"token": secret}}, {"headers": {"Authorization": f"Bearer {secret}"}}]
    ways.append({"params": {"token": secret}})  # over the limit of the key
    answers = [client.post(path, json=REQUESTS[path], **way) for way in ways]
    assert [answer.status_code for answer in answers] == [403, 200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1


@pytest.mark.parametrize("path", REQUESTS)
def test_a_browser_lets_an_extension_send_it(client, path):
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    for origin in ("chrome-extension://abc", "moz-extension://abc", "https://example.org"):
        allowed = client.options(path, headers={"Origin": origin} | asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-headers"] == "authorization,content-type"
        answer = client.post(path, json=REQUESTS[path], headers={"Origin": origin})
        assert answer.headers["access-control-allow-origin"] == "*"
