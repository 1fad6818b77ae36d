"""Wrong parameters are refused with one sentence that names the parameter and says what it must be."""

from __future__ import annotations

import json

import pytest

from server.api.parameters import json_object

ASK = {"q": "One.", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": 5}, "q must be a valid string or must be a valid list"),
        ({"q": ["a", 5]}, "q[1] must be a valid string"),
        ({"target": ""}, "target must have at least 1 character"),
        ({"beam_size": "x"}, "beam_size must be a valid integer, unable to parse string as an integer"),
        ({"beam_size": -1}, "beam_size must be greater than or equal to 1"),
        ({"timeout": "inf"}, "timeout must be a finite number"),
        ({"details": "maybe"}, "details must be a valid boolean, unable to interpret input"),
        ({"do_not_translate": ["a", ""]}, "do_not_translate[1] must have at least 1 character"),
        ({"do_not_translate": ["a"] * 101}, "do_not_translate must have at most 100 items after validation, not 101"),
        ({"glossary": {"a": 5}}, "glossary[0].target must be a valid string"),
        ({"glossary": "{"}, "glossary must be valid JSON"),
    ],
)
def test_a_wrong_parameter_is_named(client, changes, message):
    answer = client.post("/translate", json=ASK | changes)
    assert (answer.status_code, answer.json()) == (400, {"error": f"Invalid request: {message}."})


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
        assert (answer.status_code, answer.json()["error"]) == (400, "Invalid request: missing source parameter")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("layer", "x", "layer must be a valid integer, unable to parse string as an integer or must be 'all'"),
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
        (json.dumps({"q": "\ud800"}).encode(), "Invalid JSON format: no low surrogate in string at byte 7."),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_the_place(client, body, message):
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, message)


def test_a_null_is_as_if_absent():
    assert json_object(b'{"q": ["a", null], "format": null, "api_key": ""}') == {"q": ["a", None], "api_key": ""}


def test_a_byte_order_mark_before_json_is_skipped():
    assert json_object(b'\xef\xbb\xbf{"q": "a"}') == {"q": "a"}
