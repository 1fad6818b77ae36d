"""Hard input through the whole server with the default model: no rule of tests.support.texts.hard_input is broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.live import ROOT, LiveServer, live_server
from tests.support.texts.hard_input import CASES, Case, broken_rules

WEIGHTS = ROOT / "weights"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if not any(WEIGHTS.glob("*/config.json")):
        pytest.skip("there is no model in weights/")
    with live_server(WEIGHTS, tmp_path_factory.mktemp("robustness") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def directions(server: LiveServer) -> set[tuple[str, str]]:
    return {(item["code"], target) for item in server.get("/languages").json() for target in item["targets"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.source}-{case.target}")
def test_no_rule_is_broken(case: Case, server: LiveServer, directions: set[tuple[str, str]]) -> None:
    if (case.source, case.target) not in directions:
        pytest.skip(f"no model from {case.source} to {case.target}")
    answer = server.post("/translate", {"q": case.text, "source": case.source, "target": case.target})
    assert answer.status == 200, answer.body
    text = answer.json()["translatedText"]
    assert broken_rules(case, text) == [], text
    alone = server.post("/translate", {"q": [case.text, "Hello!"], "source": case.source, "target": case.target})
    assert alone.json()["translatedText"][0] == text


@pytest.mark.parametrize(
    ("text", "answer", "reason"),
    [
        ("Hello", " ", "empty"),
        ("One\nTwo", "Eins Zwei", "other lines or columns"),
        ("One\n\nTwo", "\nEins\nZwei", "lines empty or full that were not"),
        ("See https://example.org", "Siehe https://example", "lost https://example.org"),
        ("Hi 😀", "Hallo", "lost 😀"),
        ("He said 你好", "Er sagte", "lost 你好"),
        ("25 euros", "Euro", "lost a number"),
        ("Keep it", "Behalte", "lost it"),
        ("Hello there", "Hallo " + "da und dort " * 9, "a loop"),
        ("Hello", "Hallo " + "".join(map(str, range(40))), "76 characters from 5"),
        ("HELLO THERE", "Hallo", "not in capitals"),
    ],
)
def test_a_broken_rule_is_named(text: str, answer: str, reason: str) -> None:
    kept = ("it",) if text == "Keep it" else ()
    assert reason in broken_rules(Case("", "en", "de", text, kept), answer)
    assert broken_rules(Case("", "en", "de", text, kept), text) == []
