"""Tests over HTTP that GET /attention shows what a translation was served with, to the bit: its
scores under a shortlist, with terms, masked heads, reranking and repeated decodes, also after the
settings have changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.models.cpu_models import needs_cpu_backend
from tests.support.servers.live import ROOT, LiveServer, live_server

pytestmark = needs_cpu_backend
SENTENCES = (
    "The old bridge over the river was closed for repairs last winter.",
    "My sister has bought a new bicycle, and she rides it to the office every morning.",
    "Where is the nearest pharmacy?",
    "THE STATION IS OPEN, and Łukasz Đoković waits there.",
    "Write {name} to info@example.com about item AB-1234/7.",
)
TERMS = {"bridge": "Zugspitze", "bicycle": "Xylophon", "pharmacy": "Quarkspeise"}
FORMS: tuple[dict[str, Any], ...] = (
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 4, "alternatives": 3},
    {"rerank": True},
    {"beam_size": 1, "masked_heads": "cross.1.2,encoder.0.0"},
    {"beam_size": 4, "masked_heads": "decoder.2.1"},
    {"beam_size": 1, "glossary": TERMS},
    {"beam_size": 4, "glossary": TERMS},
    {"beam_size": 1, "max_length": 4, "on_flag": "retry"},
)

Served = dict[tuple[str, int], list[float]]
"""The scores of each sentence, by id and number."""


def translated(server: LiveServer) -> Served:
    """Returns what the server translated."""
    served: Served = {}
    for form in FORMS:
        body = {"q": " ".join(SENTENCES), "source": "en", "target": "de", "details": True, **form}
        answer = server.post("/translate", body)
        assert answer.status == 200, answer.body
        [sentences] = answer.json()["details"]["sentences"]
        for number, sentence in enumerate(sentences):
            # A translation of four tokens may be nothing but stand-ins: it keeps its source.
            for best in sentence["hypotheses"][:1]:
                served[answer.json()["id"], number] = best["token_scores"]
    return served


def shown(server: LiveServer, id: str, sentence: int, **parameters: str) -> dict[str, Any]:
    query = "".join(f"&{name}={value}" for name, value in parameters.items())
    answer = server.get(
        f"/attention?id={id}&sentence={sentence}&kind=cross&layer=0&head=mean&format=json{query}"
    )
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.json()
    return result


def check(server: LiveServer, served: Served, exact: bool) -> None:
    for (id, sentence), scores in served.items():
        found = shown(server, id, sentence)
        assert found["exact"] == exact
        if exact:  # a translation that ends at its largest length has no score of the end
            assert found["target"]["scores"][: len(scores)] == scores
            assert len(found["target"]["scores"]) - len(scores) in (0, 1)


def test_the_scores_of_an_id_are_those_that_were_served(tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path / "data"), "--threads", "1"]
    log = tmp_path / "log"
    with live_server(ROOT / "weights", log, arguments) as server:
        served = translated(server)
        check(server, served, exact=True)
        id = next(iter(served))[0]
        assert not shown(server, id, 0, masked_heads="cross.0.1")["exact"]  # another decode
        check_given(server, shortlist=True)
    with live_server(ROOT / "weights", log, [*arguments, "--shortlist", "off"]) as server:
        check(server, served, exact=True)  # the list of then, not the setting of now
        check(server, translated(server), exact=True)
        check_given(server, shortlist=False)
    with live_server(ROOT / "weights", log, [*arguments, "--dtype", "float32"]) as server:
        check(server, {key: served[key] for key in list(served)[::5]}, exact=False)


def check_given(server: LiveServer, shortlist: bool) -> None:
    """The translation of the model, given back, has its probability; a word that is not on the list
    is named."""
    body = {"q": SENTENCES[0], "source": "en", "target": "de", "details": True, "beam_size": 1}
    answer = server.post("/translate", body).json()
    scores = answer["details"]["sentences"][0][0]["hypotheses"][0]["token_scores"]
    given = {
        "q": SENTENCES[0],
        "source": "en",
        "target": "de",
        "translation": answer["translatedText"],
    }
    same = server.post("/score", given).json()["scores"]
    assert same["scores"] == scores and same["outside"] == []
    strange = server.post("/score", given | {"translation": "Xylophon Quarkspeise 魚."}).json()[
        "scores"
    ]
    assert bool(strange["outside"]) == shortlist
    assert all(score <= 0 for score in strange["scores"]), json.dumps(strange)
