"""Messages about wrong parameters, and the tables of parameters in docs/clients.md."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from server.api.parameters import json_object
from tests.support.servers.keys import KeyFile

ASK = {"q": "One.", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": 5}, "q must be a valid string or must be a valid list"),
        ({"q": ["a", 5]}, "q[1] must be a valid string"),
        ({"target": ""}, "target must have at least 1 character"),
        (
            {"beam_size": "x"},
            "beam_size must be a valid integer, unable to parse string as an integer",
        ),
        ({"beam_size": -1}, "beam_size must be greater than or equal to 1"),
        ({"timeout": "inf"}, "timeout must be a finite number"),
        ({"details": "maybe"}, "details must be a valid boolean, unable to interpret input"),
        ({"do_not_translate": ["a", ""]}, "do_not_translate[1] must have at least 1 character"),
        (
            {"do_not_translate": ["a"] * 101},
            "do_not_translate must have at most 100 items after validation, not 101",
        ),
        ({"glossary": {"a": 5}}, "glossary[0].target must be a valid string"),
        ({"glossary": {"a": " "}}, "glossary[0].target must not be blank"),
        ({"glossary": "{"}, "glossary must be valid JSON"),
    ],
)
def test_a_wrong_parameter_is_named(client, changes, message):
    answer = client.post("/translate", json=ASK | changes)
    assert (answer.status_code, answer.json()) == (400, {"error": f"Invalid request: {message}."})


@pytest.mark.parametrize("name", ["ignore_tags", "splitting_tags", "glossary_ids"])
def test_a_list_is_named_as_in_json(client, name):
    body = {"text": ["One."], "target_lang": "DE", "source_lang": "EN", name: 5}
    message = client.post("/v2/translate", json=body).json()["message"]
    assert message == f"Invalid request: {name} must be a valid list."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "xx-YY"}, "xx-YY is not supported"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": "x"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 99}, "Invalid request: alternatives parameter must be <= 10"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
    ],
)
def test_sentences_of_libretranslate(client, changes, message):
    answer = client.post("/translate", json=ASK | changes)
    assert (answer.status_code, answer.json()) == (400, {"error": message})


def test_the_first_missing_parameter_is_named(client):
    for fields in ({"json": {"q": "One."}}, {"data": {"q": "One."}}, {"params": {"q": "One."}}):
        answer = client.post("/translate", **fields)
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "Invalid request: missing source parameter",
        )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "layer",
            "x",
            "layer must be a valid integer, unable to parse string as an integer or must be 'all'",
        ),
        ("head", "x", "head must be a number, several such as 0,3, or one of all, mean, max, sum"),
    ],
)
def test_a_parameter_of_two_types_names_both(client, name, value, message):
    answer = client.get("/attention", params={name: value})
    assert (answer.status_code, answer.json()["error"]) == (400, f"Invalid request: {message}.")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"q": "a \xff b"}', "The body is not UTF-8 at byte 9."),
        (b'{"q":', "Invalid JSON format: unexpected end of data at byte 5."),
        (
            json.dumps({"q": "\ud800"}).encode(),
            "Invalid JSON format: no low surrogate in string at byte 7.",
        ),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_the_place(client, body, message):
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, message)


def test_a_null_is_as_if_absent():
    assert json_object(b'{"q": ["a", null], "format": null, "api_key": ""}') == {
        "q": ["a", None],
        "api_key": "",
    }


def test_a_byte_order_mark_before_json_is_skipped():
    assert json_object(b'\xef\xbb\xbf{"q": "a"}') == {"q": "a"}


PAGE = Path(__file__).parents[4] / "docs" / "clients.md"
ROWS = re.compile(r"^### `(\w+) (\S+)`$|^\| `(\w+)` \| `(.+?)` \| ([a-z ]+) \|", re.MULTILINE)
BASES: dict[str, dict[str, Any]] = {
    "/translate": {"q": "One & two", "source": "en", "target": "de"},
    "/detect": {"q": "Hello"},
    "/translate_file": {"source": "en", "target": "de"},
    "/suggest": {"q": "Hello", "s": "Hallo", "source": "en", "target": "de"},
    "/v2/translate": {
        "text": ["one\ntwo. <t>Three!</t>"],
        "source_lang": "EN",
        "target_lang": "DE",
    },
    "/v2/document": {"source_lang": "EN", "target_lang": "DE"},
    "/v2/languages": {},
    "/language/translate/v2": {"q": "One & two", "source": "en", "target": "de"},
    "/language/translate/v2/detect": {"q": "Hello"},
    "/language/translate/v2/languages": {},
    "/translate_a/single": {"q": "Hello & goodbye", "sl": "en", "tl": "de"},
}
"""A request without the parameter of a row, or with another value of it."""
WITH: dict[str, dict[str, Any]] = {
    "ignore_tags": {"tag_handling": "xml", "text": ["<x>one</x> two"]},
    "splitting_tags": {"tag_handling": "xml", "text": ["<t>one</t> two"]},
    "non_splitting_tags": {"tag_handling": "xml", "text": ["<t>one </t><t>two</t>"]},
    "outline_detection": {"tag_handling": "xml", "text": ["<t>one </t><t>two</t>"]},
    "tag_handling_version": {"tag_handling": "xml"},
    "strict": {"context": "A letter."},
}
"""Further parameters that a row's parameter needs."""
GLOSSARY = {"name": "One", "source_lang": "EN", "target_lang": "DE", "entries": "one\teins"}
GLOSSARIES = ("glossary_id", "glossary_ids")
"""Parameters whose example stands for the id of GLOSSARY."""
KEYS = ("api_key", "auth_key", "key", "token")


def rows() -> list[Any]:
    found, method, path = [], "", ""
    for match in ROWS.finditer(PAGE.read_text(encoding="utf-8")):
        if match[1]:
            method, path = match[1], match[2]
        else:
            found.append(
                pytest.param(
                    method,
                    path,
                    match[3],
                    json.loads(match[4]),
                    match[5],
                    id=f"{path} {match[3]} {match[4]}",
                )
            )
    return found


def ask(client, method: str, path: str, fields: dict[str, Any]) -> tuple[int, Any]:
    """Returns the status and what a caller sees: the body without ids, or the translated file."""
    if path in ("/translate_file", "/v2/document"):
        answer = client.post(path, files={"file": ("a.txt", b"one two")}, data=fields)
        if answer.status_code != 200:
            return answer.status_code, answer.json()
        return 200, translated_file(client, answer.json(), fields)
    answer = client.request(method, path, json=fields)
    body = answer.json()
    return answer.status_code, {key: body[key] for key in body if key != "id"} if isinstance(
        body, dict
    ) else body


def translated_file(client, sent: dict[str, str], fields: dict[str, Any]) -> bytes:
    if url := sent.get("translatedFileUrl"):
        return client.get(url).content
    path = f"/v2/document/{sent['document_id']}"
    key = {"document_key": sent["document_key"], "auth_key": fields.get("auth_key")}
    deadline = time.monotonic() + 60
    while (
        status := client.post(path, json=key).json()["status"]
    ) == "translating" and time.monotonic() < deadline:
        time.sleep(0.005)
    assert status == "done"
    return client.post(path + "/result", json=key).content


def message(path: str, body: dict[str, Any]) -> str:
    """Returns the sentence of an error. Raises KeyError where it has not the form of the
    interface."""
    if path.startswith("/v2/"):
        return body["message"]
    return body["error"]["message"] if path.startswith("/language/") else body["error"]


@pytest.mark.parametrize(("method", "path", "parameter", "example", "treatment"), rows())
def test_a_parameter_is_treated_as_its_row_says(
    serve, tmp_path, method, path, parameter, example, treatment
):
    settings = {}
    if parameter in KEYS:
        example, _ = KeyFile(tmp_path).create("caller")
        settings = {"data": tmp_path, "key_required": True}
    client = serve(**settings)
    if parameter in GLOSSARIES:
        id = client.post("/v2/glossaries", json=GLOSSARY).json()["glossary_id"]
        example = [id] if isinstance(example, list) else id
    base = BASES[path] | WITH.get(parameter, {})
    without = {name: value for name, value in base.items() if name != parameter}
    before = ask(client, method, path, without)
    after = ask(client, method, path, without | {parameter: example})
    if treatment == "supported":
        assert before != after
    elif treatment == "no effect":
        assert before == after
        assert after[0] == 200
    else:
        assert treatment == "refused"
        assert 400 <= after[0] < 500
        assert isinstance(message(path, after[1]), str)


def test_every_interface_has_a_table():
    assert {row.values[1] for row in rows()} == set(BASES)
    assert len(rows()) > 55


def test_a_form_may_have_raw_utf_8(client):
    body = "q=Grüße, 東京&source=en&target=de".encode()
    answer = client.post(
        "/translate", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert answer.json()["translatedText"] == "京東 ,eßürG"
