"""Which of several models with a language pair is used: chosen by the operator, by the models, or
by a request."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil

import pytest

from server.__main__ import main
from server.config import comma_separated
from server.models import hot_reload
from server.translation.catalog import ModelCatalog, ServedModel
from tests.support.engine.fake_engine import fake_model

ASK = {"q": "Hello", "source": "en", "target": "de", "details": True}
PAIRS = [("en", "de"), ("de", "en")]


def model(name: str, preference: int = 0, pairs=PAIRS) -> ServedModel:
    return dataclasses.replace(fake_model(name, pairs), preference=preference)


@pytest.mark.parametrize(
    ("models", "prefer", "first"),
    [
        ([model("general"), model("opus")], "", "general"),
        ([model("general", -1), model("opus")], "", "opus"),
        ([model("general", -1), model("opus"), model("zeta", 1)], "", "zeta"),
        ([model("general", -1), model("opus"), model("zeta", 1)], "opus", "opus"),
        ([model("general", -1), model("opus")], " general , opus", "general"),
        ([model("b"), model("a"), model("c")], "x,c,b", "c"),
        ([model("a", pairs=[("de", "en")]), model("b")], "a", "b"),
    ],
)
def test_the_first_model_by_preference_is_used(models, prefer, first):
    for order in (models, models[::-1]):
        catalog = ModelCatalog(order, comma_separated(prefer))
        assert (
            [leg.model.name for leg in catalog.route("en", "de")]
            == [first]
            == [catalog.direct("en", "de").name]
        )
        used = [(name.name, pair) for name in models for pair in catalog.served_pairs(name)]
        assert sorted(pair for _, pair in used) == sorted(PAIRS) and (first, ("en", "de")) in used


def test_a_request_may_name_its_model(serve, engine):
    client = serve(ModelCatalog([model("general"), model("opus", pairs=[*PAIRS, ("en", "fr")])]))
    for name, used in (
        (None, "general"),
        ("", "general"),
        ("general", "general"),
        ("opus", "opus"),
    ):
        answer = client.post("/translate", json=ASK | {"model": name})
        assert answer.json()["details"]["route"][0]["model"] == used
    assert [job[0] for job in engine.submitted] == ["general@", "general@", "opus@"]
    assert (
        client.post(
            "/translate", json=ASK | {"model": "opus", "source": "auto", "q": "Hello you"}
        ).status_code
        == 200
    )
    for fields, words in (
        ({"model": "nope"}, "There is no model 'nope'; there are general, opus."),
        ({"model": "x" * 300}, "model"),
        ({"model": "general", "target": "fr"}, "is not supported"),
    ):
        answer = client.post("/translate", json=ASK | fields)
        assert answer.status_code == 400 and words in answer.json()["error"]
    parameters = client.get("/openapi.json").json()["components"]["schemas"]["TranslateParameters"][
        "properties"
    ]
    assert parameters["model"]["description"]


def test_languages_name_the_models(serve):
    client = serve(
        ModelCatalog([model("general", -1, [*PAIRS, ("en", "fr"), ("fr", "en")]), model("opus")])
    )
    models = {language["code"]: language["models"] for language in client.get("/languages").json()}
    assert models == {
        "en": {"de": "opus", "fr": "general"},
        "de": {"en": "opus"},
        "fr": {"en": "general"},
    }


def test_a_new_model_that_is_never_used_is_named(serve, monkeypatch, caplog):
    general, opus = model("general"), model("opus")
    client = serve(ModelCatalog([general]), admin_key="k")
    monkeypatch.setattr(hot_reload, "find_served", lambda settings: ([general, opus], {}))
    with caplog.at_level(logging.WARNING):
        assert client.post("/admin/reload", headers={"Authorization": "Bearer k"}).json()[
            "added"
        ] == ["opus"]
    assert [record.message for record in caplog.records if "opus" in record.message] == [
        "model opus serves no language pair, as others come first; name it in --prefer"
    ]
    caplog.clear()
    ModelCatalog([general, opus], ["opus", "typo"]).check_order({"opus"})
    assert [record.message for record in caplog.records] == [
        "--prefer names typo, and there is no such model"
    ]


def test_the_command_models_shows_the_order(tiny_weights, tmp_path, capsys):
    for name, preference in (("a", -1), ("b", 0), ("c", 0)):
        shutil.copytree(tiny_weights / "tiny", tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(
            json.dumps(config | {"name": name, "preference": preference})
        )

    def listed(*words: str) -> list[tuple[str, int]]:
        assert main(["models", "--weights", str(tmp_path), "--json", *words]) == 0
        return [
            (each["name"], len(each["used"]))
            for each in json.loads(capsys.readouterr().out)["models"]
        ]

    assert listed() == [("b", 2), ("c", 0), ("a", 0)]
    assert listed("--prefer", "c,a") == [("c", 2), ("a", 0), ("b", 0)]
    assert main(["models", "--weights", str(tmp_path)]) == 0
    assert "2 by models before" in capsys.readouterr().out
