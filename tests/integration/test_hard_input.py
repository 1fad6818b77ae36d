"""Hard input through the whole server with the default model: no rule of
tests.support.texts.hard_input is broken."""

from __future__ import annotations

import pytest

from tests.support.servers.live import LiveServer
from tests.support.texts.hard_input import CASES, Case, broken_rules


@pytest.fixture(scope="module")
def directions(shipped: LiveServer) -> set[tuple[str, str]]:
    return {
        (item["code"], target)
        for item in shipped.get("/languages").json()
        for target in item["targets"]
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.source}-{case.target}")
def test_no_rule_is_broken(
    case: Case, shipped: LiveServer, directions: set[tuple[str, str]]
) -> None:
    if (case.source, case.target) not in directions:
        pytest.skip(f"no model from {case.source} to {case.target}")
    answer = shipped.post(
        "/translate", {"q": case.text, "source": case.source, "target": case.target}
    )
    assert answer.status == 200, answer.body
    text = answer.json()["translatedText"]
    assert broken_rules(case, text) == [], text
    alone = shipped.post(
        "/translate", {"q": [case.text, "Hello!"], "source": case.source, "target": case.target}
    )
    assert alone.json()["translatedText"][0] == text
