"""The benchmark of glossaries."""

from __future__ import annotations

import pytest

from benchmarks.common.development_sets import DevelopmentSet
from benchmarks.quality.glossary import chosen_terms, main, measure
from benchmarks.quality.http_client import Client
from server.text.glossary import Entry

SET = DevelopmentSet(
    "toy",
    "en",
    "de",
    tuple(f"a battery {word} here" for word in ("lies", "stands", "works", "sleeps")),
    tuple(f"ein Akku {word} da" for word in ("liegt", "steht", "geht", "schläft")),
)


class StubClient(Client):
    """Knows the glossary only."""

    def translate(self, texts, source, target, fields=None):
        return [text.replace("battery", fields.get("glossary", {}).get("battery", "Batterie")) for text in texts]


def test_terms_have_one_translation():
    assert chosen_terms(SET, 50) == [Entry("battery", "Akku")]


def test_terms_in_place_are_counted():
    with StubClient("http://127.0.0.1:1") as client:
        without, with_glossary = measure(client, SET, 50, 2)
    assert without[:5] == ["en-de", 0, 4, 4, 0.0]
    assert with_glossary[:5] == ["en-de", 1, 4, 4, 100.0]
    assert with_glossary[5] > without[5]


def test_a_set_without_terms_is_an_error():
    short = DevelopmentSet("toy", "en", "de", SET.sources[:1], SET.references[:1])
    with StubClient("http://127.0.0.1:1") as client, pytest.raises(ValueError, match="has no term"):
        measure(client, short, 50, 2)


def test_a_server_that_does_not_answer_is_an_error(development, capsys):
    assert main(["http://127.0.0.1:1", "--data", str(development), "--sets", "small"]) == 2
    assert "http://127.0.0.1:1 did not answer" in capsys.readouterr().err
