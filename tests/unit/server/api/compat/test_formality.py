"""DeepL's `formality`: a symbol in the source of a model that was trained with it; other models
refuse it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from model.model_folder import read_folder
from model.symbols import FORMAL, INFORMAL
from server.models.discovery import read_model
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FORMS, FakeEngine, fake_model
from tests.support.servers.live import tiny_model

HELLO = {"text": ["Hello"], "source_lang": "EN", "target_lang": "DE"}


@pytest.fixture
def formal(serve):
    """A server whose model knows the forms of address of German."""
    return serve(ModelCatalog([dataclasses.replace(fake_model(), formality=frozenset({"de"}))]))


def heads(engine: FakeEngine) -> list[int]:
    """Returns the first id after the language tag of each job."""
    return [ids[1] for _, ids, *_ in engine.submitted]


@pytest.mark.parametrize(
    ("formality", "symbol"),
    [("more", FORMAL), ("prefer_more", FORMAL), ("less", INFORMAL), ("prefer_less", INFORMAL)],
)
def test_a_model_that_knows_the_form_of_address_reads_its_symbol(formal, engine, formality, symbol):
    answer = formal.post("/v2/translate", json=HELLO | {"formality": formality, "strict": True})
    assert answer.json()["translations"][0]["text"] == "olleH"
    assert heads(engine) == [FORMS[symbol]]


def test_the_symbol_is_part_of_the_last_leg_only(formal, engine):
    body = HELLO | {"source_lang": "FR", "formality": "more"}
    assert formal.post("/v2/translate", json=body).status_code == 200
    first, second = heads(engine)
    assert first not in FORMS.values() and second == FORMS[FORMAL]


def test_the_own_interface_has_it_for_the_targets_that_it_lists(formal, engine):
    listed = {
        language["code"]: language["formality"] for language in formal.get("/languages").json()
    }
    assert listed == {"de": [], "en": ["de"], "fr": ["de"]}  # French reaches German through English
    body = {"q": "Hello", "source": "en", "target": "de"}
    for formality, symbol in (("prefer_more", FORMAL), ("LESS", INFORMAL)):
        assert formal.post("/translate", json=body | {"formality": formality}).status_code == 200
        assert heads(engine)[-1] == FORMS[symbol]
    file = {"file": ("a.txt", b"Hello there")}
    data = {"source": "en", "target": "de", "formality": "more"}
    assert formal.post("/translate_file", files=file, data=data).status_code == 200
    assert heads(engine)[-1] == FORMS[FORMAL]
    for formality, status in (("more", 400), ("prefer_more", 200), ("polite", 400)):
        refused = body | {"target": "fr", "formality": formality}
        assert formal.post("/translate", json=refused).status_code == status


@pytest.mark.parametrize(
    ("formality", "status"), [("more", 400), ("prefer_less", 200), ("default", 200)]
)
def test_other_languages_refuse_it(formal, engine, formality, status):
    answer = formal.post(
        "/v2/translate", json=HELLO | {"target_lang": "FR", "formality": formality}
    )
    assert answer.status_code == status
    assert not {*heads(engine)} & {*FORMS.values()}
    said = answer.json().get("translations", [{}])[0].get("formality_used")
    assert said == ("default" if formality == "prefer_less" else None)
    if status == 400:
        assert "formality" in answer.json()["message"]
        body = {"source_lang": "EN", "target_lang": "FR", "formality": formality}
        assert (
            formal.post("/v2/document", files={"file": ("a.txt", b"Hello")}, data=body).status_code
            == 400
        )


@pytest.mark.parametrize(("target", "symbols"), [("DE", [FORMS[INFORMAL]]), ("FR", [])])
def test_a_document_has_a_form_of_address_or_says_that_it_has_none(formal, engine, target, symbols):
    body = {"source_lang": "EN", "target_lang": target, "formality": "prefer_less"}
    sent = formal.post("/v2/document", files={"file": ("a.txt", b"Hello")}, data=body).json()
    while (answer := formal.post(f"/v2/document/{sent['document_id']}", json=sent)).json()[
        "status"
    ] == "translating":
        pass
    assert [head for head in heads(engine) if head in FORMS.values()] == symbols
    assert ("formality" in answer.json().get("warning", "")) == (
        "formality" in answer.headers.get("X-Warning", "")
    )
    assert ("warning" in answer.json()) == (not symbols)


def test_languages_say_whether_they_have_it(formal, serve):
    listed = formal.get("/v2/languages", params={"type": "target"}).json()
    assert {one["language"]: one["supports_formality"] for one in listed}.items() >= {
        "DE": True,
        "FR": False,
    }.items()
    assert not any("supports_formality" in one for one in formal.get("/v2/languages").json())
    listed = formal.get("/v3/languages", params={"resource": "translate_text"}).json()
    assert {one["lang"] for one in listed if "formality" in one["features"]} == {"de"}


def test_the_attention_of_a_formal_translation_has_the_symbol(formal, monkeypatch):
    history, ids = formal.app.services.translator.history, []
    add = history.add
    monkeypatch.setattr(history, "add", lambda id, data: (ids.append(id), add(id, data)))
    formal.post("/v2/translate", json=HELLO | {"formality": "more"})
    answer = formal.get("/attention", params={"id": ids[0]}).json()
    assert FORMAL in json.dumps(answer["source"])


def test_a_folder_needs_the_symbols_and_the_training(tmp_path):
    folder = tiny_model(tmp_path / "tiny")
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"formality": ["de"]}))
    assert read_folder(folder).formality == ("de",)
    assert read_folder(folder).to_json().count('"formality"') == 1
    assert read_model(folder).formality == frozenset()  # its vocabulary lacks the symbols
