"""Model names, tags and cards as language pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.convert.languages import find_pairs, language_code, language_tags
from model.convert.source_files import ImportRefused, Languages

HERE = Path("model")


@pytest.mark.parametrize(
    ("marian", "code"),
    [
        ("deu", "de"), ("de", "de"), ("cmn_Hans", "zh-Hans"), ("zho", "zh"), ("pob", "pt-BR"), ("pt_br", "pt-BR"),
        ("srp_Latn", "sr-Latn"), ("nds", "nds"), ("eng", "en"),
    ],
)  # fmt: skip
def test_codes(marian: str, code: str) -> None:
    assert language_code(marian) == code


def test_tags_keep_the_first_of_two_for_one_language() -> None:
    vocabulary = {"</s>": 0, ">>zho<<": 5, ">>cmn<<": 3, ">>deu<<": 9, ">> x<<": 10, "x>>fra<<": 11}
    assert language_tags(vocabulary) == {"zh": ">>cmn<<", "zho": ">>zho<<", "de": ">>deu<<"}


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("opus-mt-en-de", [("en", "de")]),
        ("opus-mt-tc-big-fr-en", [("fr", "en")]),
        ("opus-mt-tc-base-uk-fi", [("uk", "fi")]),
        ("opus-mt-tc-big-cat_oci_spa-en", [("ca", "en"), ("oc", "en"), ("es", "en")]),
    ],
)
def test_names(name: str, pairs: list[tuple[str, str]]) -> None:
    assert list(find_pairs(HERE, name, Languages(), {})[0]) == pairs


def test_a_group_counts_as_the_languages_that_the_card_lists() -> None:
    card = Languages(listed=("it", "es", "en", "roa"))
    assert find_pairs(HERE, "opus-mt-ROMANCE-en", card, {})[0] == (("it", "en"), ("es", "en"))
    tags = {"it": ">>ita<<", "es": ">>spa<<"}
    assert find_pairs(HERE, "opus-mt-en-ROMANCE", card, tags) == ((("en", "it"), ("en", "es")), tags)


def test_the_files_win_over_the_name_and_the_caller_over_both() -> None:
    stated = Languages(source="eng", target="fra")
    assert find_pairs(HERE, "opus-mt-en-de", stated, {})[0] == (("en", "fr"),)
    assert find_pairs(HERE, "opus-mt-en-de", stated, {}, ["it"], ["nl"])[0] == (("it", "nl"),)


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
def test_what_stays_unknown_is_refused(
    name: str, sources: list[str], targets: list[str], tags: dict[str, str], reason: str
) -> None:
    with pytest.raises(ImportRefused, match=reason):
        find_pairs(HERE, name, Languages(), tags, sources, targets)
