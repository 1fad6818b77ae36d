"""POST /live: the words of a translation that will not change any more."""

from __future__ import annotations

import random

import pytest

from model.analysis.attention_alignment import Word
from server.inspection.live import stable_pieces

ASK = {"source": "en", "target": "de"}


def words(text: str) -> tuple[Word, ...]:
    """Words of one piece each, with a special one at the end."""
    parts = text.split()
    return (
        *(Word(part, 2 * i, 2 * i + 1, (i,)) for i, part in enumerate(parts)),
        Word("</s>", 99, 99, (len(parts),)),
    )


@pytest.mark.parametrize(
    ("source", "target", "aligned", "expected"),
    [
        ("a b c d", "A B C D", [0, 1, 2, 3, None], [4, 3, 2, 1, 0, 0]),
        ("a b c d", "D A B C", [3, 0, 1, 2, None], [4, 0, 0, 0, 0, 0]),
        # the comma waits for the word after it
        ("a b c d", "A B , D", [0, 1, 1, 3, None], [4, 2, 2, 1, 0, 0]),
        # a full stop is no word that was read
        ("a b c .", "A B C .", [0, 1, 2, 3, None], [3, 2, 1, 0, 0, 0]),
        ("a b", "A <tag> B", [0, None, 1, None], [1, 1, 0, 0, 0, 0]),
    ],
)
def test_nothing_is_given_out_from_the_first_word_that_comes_from_the_last_ones(
    source, target, aligned, expected
):
    assert [
        stable_pieces(words(source), words(target), aligned, wait) for wait in range(6)
    ] == expected


def test_what_was_given_out_begins_every_later_translation(client):
    chance = random.Random(1)
    for _ in range(20):
        parts = [chance.choice(["ab", "c", "def", "gh", "x1"]) for _ in range(chance.randint(1, 8))]
        prefix: list[str] = []
        for count in range(1, len(parts) + 1):
            ask = ASK | {
                "q": " ".join(parts[:count]),
                "prefix": prefix,
                "final": count == len(parts),
            }
            answers = [client.post("/live", json=ask | {"wait": wait}).json() for wait in (3, 1)]
            kept = [answer["kept"] for answer in answers]
            assert kept[0] <= kept[1] and answers[1]["target"]["pieces"][: len(prefix)] == prefix
            prefix = answers[chance.randrange(2)]["prefix"]
        assert answers[0]["complete"] and kept[0] == kept[1] == len(answers[0]["target"]["text"])
        assert answers[0]["consumed"] == len(ask["q"])


def test_a_sentence_ends_where_the_next_one_begins(client):
    answer = client.post("/live", json=ASK | {"q": " Ab cd. Ef"}).json()
    assert (
        answer["complete"]
        and answer["source"]["text"] == "Ab cd."
        and answer["consumed"] == len(" Ab cd.")
    )
    one = client.post("/live", json=ASK | {"q": " Ab cd."}).json()
    assert not one["complete"] and one["consumed"] == 0 and one["kept"] == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"q": " "}, "q has no words yet."),
        ({"prefix": ["ab"]}, "The model writes no piece \u201cab\u201d."),
        (
            {"source": "de", "target": "fr"},
            "Live translation needs a model for exactly this direction.",
        ),
        ({"wait": -1}, None),
        ({"final": "yes"}, None),
    ],
)
def test_wrong_requests_are_refused_with_a_sentence(client, change, error):
    answer = client.post("/live", json=ASK | {"q": "ab"} | change)
    assert answer.status_code == 400 and error in (None, answer.json()["error"])


def test_a_browser_gets_the_page(client):
    page = client.get("/live", headers={"Accept": "text/html", "Accept-Language": "de"})
    assert page.status_code == 200 and "Beispiel tippen" in page.text
