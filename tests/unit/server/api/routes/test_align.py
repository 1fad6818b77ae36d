"""POST /align: words and links of given pairs, in all forms of a request, and what it refuses."""

from __future__ import annotations

import json

import pytest

from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import fake_model

ASK = {"source": "en", "target": "de"}
TEXTS = [
    ("Anna's cat.", "tac s'annA"),
    ("", "Hallo"),
    (" \n", ""),
    ("\U0001f600 a\u00ad b", "b  a"),
]


@pytest.mark.parametrize(
    "fields",
    [
        {"json": ASK | {"pairs": TEXTS}},
        {
            "json": ASK
            | {"pairs": [{"source": source, "target": target} for source, target in TEXTS]}
        },
        {"data": ASK | {"pairs": json.dumps(TEXTS)}},
        {
            "data": ASK
            | {
                f"pairs[{i}].{n}": t
                for i, pair in enumerate(TEXTS)
                for n, t in zip(ASK, pair, strict=True)
            }
        },
    ],
)
def test_words_have_the_characters_of_the_texts_and_links_are_between_them(client, fields):
    answer = client.post("/align", **fields).json()
    assert (answer["model"], answer["method"]) == ("toy", "combined")
    linked = [("Anna", "annA"), ("'s", "s'"), ("cat", "tac")], [], [], [("a", "a"), ("b", "b")]
    for texts, pair, expected in zip(TEXTS, answer["pairs"], linked, strict=True):
        for text, words in zip(texts, (pair["source"], pair["target"]), strict=True):
            assert [word["text"] for word in words] == [
                text[word["start"] : word["end"]] for word in words
            ]
            assert "".join(word["text"] for word in words) == "".join(text.split())
        found = [
            (pair["source"][i]["text"], pair["target"][j]["text"]) for i, j, _ in pair["links"]
        ]
        assert all(0 < probability <= 1 for *_, probability in pair["links"])
        assert pair["pharaoh"] == " ".join(f"{i}-{j}" for i, j, _ in pair["links"])
        assert found == expected


def test_a_model_that_cannot_compare_words_has_the_attention_and_given_words_stay(serve, engine):
    client = serve(ModelCatalog([fake_model(pairs=(("en", "de"),))]))
    answer = client.post(
        "/align", json=ASK | {"pairs": [["a-b c.", ".c b-a"]], "tokenized": True}
    ).json()
    assert answer["method"] == "attention"
    assert [word["text"] for word in answer["pairs"][0]["source"]] == ["a-b", "c."]
    assert answer["pairs"][0]["pharaoh"] == "0-1 1-0"
    assert len(engine.attended) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "missing pairs parameter"),
        ({"pairs": []}, "missing pairs parameter"),
        ({"pairs": "[["}, "pairs must be"),
        ({"pairs": [["a", "b", "c"]]}, "pairs must be a list of pairs, each of two texts."),
        ({"pairs": [["a", 5]]}, "pairs"),
        ({"pairs": [["a", "b"]] * 101}, "At most 100 pairs"),
        ({"pairs": [["a", "b"], ["a", "b " * 200]]}, "pair 1 has 3 and 401"),
        ({"pairs": [["a", "b" * 200_000]]}, "exceeds text limit"),
        ({"pairs": [["a", "b"]], "method": "magic"}, "method must"),
        ({"pairs": [["a", "b"]], "target": "tlh"}, "tlh"),
        ({"pairs": [["a", "b"]], "source": "fr"}, "exactly this direction"),
    ],
)
def test_the_refusal_names_what_is_wrong(client, engine, fields, words):
    answer = client.post("/align", json=ASK | fields)
    assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text
