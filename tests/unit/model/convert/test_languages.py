"""Tests of language pairs read from model names, tags and model cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.convert.languages import find_pairs, language_code, language_tags
from model.convert.source_files import ImportRefused

HERE, NONE = Path("model"), (None, None)


@pytest.mark.parametrize(
    ("marian", "code"),
    [
        ("deu", "de"), ("de", "de"), ("cmn_Hans", "zh-Hans"), ("zho", "zh"), ("pob", "pt-BR"), ("pt_br", "pt-BR"),
        ("srp_Latn", "sr-Latn"), ("nds", "nds"), ("eng", "en"),
    ],
)  # fmt: skip
def test_marian_codes_become_language_codes(marian: str, code: str) -> None:
    assert language_code(marian) == code


def test_the_tag_with_the_lowest_id_is_used_for_a_language() -> None:
    vocabulary = {"</s>": 0, ">>zho<<": 5, ">>cmn<<": 3, ">>deu<<": 9, ">> x<<": 10, "x>>fra<<": 11}
    assert language_tags(vocabulary) == {"zh": ">>cmn<<", "zho": ">>zho<<", "de": ">>deu<<"}


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("opus-mt-en-de", [("en", "de")]),
        ("opus-mt-tc-big-fr-en", [("fr", "en")]),
        ("opus-mt-tc-base-uk-fi", [("uk", "fi")]),
        ("opus-mt-tatoeba-es-zh", [("es", "zh")]),
        ("opus-tatoeba-he-fr", [("he", "fr")]),
        ("opus-mt-en-jap", [("en", "ja")]),
        ("opus-mt-tc-big-cat_oci_spa-en", [("ca", "en"), ("oc", "en"), ("es", "en")]),
        ("opus-mt-tc-big-en-pt_br", [("en", "pt-BR")]),
        ("opus-mt-en-srp_Latn", [("en", "sr-Latn")]),
    ],
)
def test_pairs_are_read_from_the_model_name(name: str, pairs: list[tuple[str, str]]) -> None:
    assert list(find_pairs(HERE, name, NONE, (), {})[0]) == pairs


def test_a_language_group_is_replaced_by_the_languages_of_the_card() -> None:
    card = ("it", "es", "en", "roa")
    assert find_pairs(HERE, "opus-mt-ROMANCE-en", NONE, card, {})[0] == (("it", "en"), ("es", "en"))
    tags = {"it": ">>ita<<", "es": ">>spa<<"}
    assert find_pairs(HERE, "opus-mt-en-ROMANCE", NONE, card, tags) == ((("en", "it"), ("en", "es")), tags)


def test_between_two_groups_every_language_is_on_both_sides() -> None:
    tags = {"da": ">>da<<", "sv": ">>sv<<", "nb": ">>nb<<"}
    card = ("da", "sv", "nb", "scandinavia")
    pairs, used = find_pairs(HERE, "opus-mt-SCANDINAVIA-SCANDINAVIA", NONE, card, tags)
    assert set(pairs) == {(source, target) for source in tags for target in tags if source != target}
    assert used == tags


def test_files_override_the_name_and_arguments_override_both() -> None:
    stated = ("eng", "fra")
    assert find_pairs(HERE, "opus-mt-en-de", stated, (), {})[0] == (("en", "fr"),)
    assert find_pairs(HERE, "opus-mt-en-de", stated, (), {}, ["it"], ["nl"])[0] == (("it", "nl"),)


@pytest.mark.parametrize(
    ("name", "sources", "targets", "tags", "reason"),
    [
        ("strange", [], [], {}, "--source"),
        ("opus-mt-mul-en", [], [], {}, "--source"),
        ("opus-mt-en-mul", [], [], {}, "--target"),
        ("opus-mt-en-de", [], ["fr"], {"de": ">>deu<<"}, "no tag for the target fr"),
        ("opus-mt-en-de", [], ["fr", "it"], {}, "no >>tags<<"),
        ("opus-mt-en-de", ["de"], [], {}, "same"),
        ("opus-mt-en-de", ["e!"], [], {}, "not a language code"),
    ],
)
def test_unknown_languages_are_refused(
    name: str, sources: list[str], targets: list[str], tags: dict[str, str], reason: str
) -> None:
    with pytest.raises(ImportRefused, match=reason):
        find_pairs(HERE, name, NONE, (), tags, sources, targets)
