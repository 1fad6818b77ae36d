"""Routes between languages."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.model_folder import AllPairs
from model.search.options import DecodingOptions
from model.symbols import FORMAL
from server.errors import UnsupportedLanguage
from server.translation.catalog import INVISIBLE, Leg, ModelCatalog
from tests.support.engine.fake_engine import TAGS, FakeTokenizer, fake_model


def test_a_route_is_direct_or_uses_english_as_the_first_choice_of_pivot():
    pairs = [("de", "en"), ("en", "fr"), ("de", "es"), ("es", "fr"), ("fr", "it"), ("en", "de")]
    catalog = ModelCatalog([fake_model("b", pairs[:3]), fake_model("a", pairs[3:])])

    def route(source: str, target: str) -> list[tuple[str, str, str]]:
        return [(leg.model.name, leg.source, leg.target) for leg in catalog.route(source, target)]

    assert route("de", "de") == []
    assert route("de", "en") == [("b", "de", "en")]
    assert route("de", "fr") == [("b", "de", "en"), ("b", "en", "fr")]
    assert catalog.targets("de") == ("de", "en", "es", "fr")
    with pytest.raises(UnsupportedLanguage, match="is not available as a target language from"):
        route("fr", "de")
    for source in catalog.sources:
        for target in catalog.targets(source):
            catalog.route(source, target)


def test_a_model_of_200_languages_stands_beside_others_without_a_list_of_its_pairs():
    codes = tuple(f"x{i:03}" for i in range(200))
    many = dataclasses.replace(fake_model("many"), pairs=AllPairs(codes, codes))
    catalog = ModelCatalog([many, fake_model("toy", [("en", "de"), ("en", "x000")])])
    assert catalog.targets("x000") == codes
    assert catalog.targets("en") == ("de", "en", *codes)
    [leg] = catalog.route("x007", "x100")
    assert (leg.model.name, leg.source, leg.target) == ("many", "x007", "x100")
    assert [leg.model.name for leg in catalog.route("en", "x005")] == ["toy", "many"]
    assert catalog.route("x005", "x005") == ()
    with pytest.raises(UnsupportedLanguage):
        catalog.route("x000", "de")


def test_the_reverse_direction_begins_with_the_first_token_of_the_source_language():
    class FirstTokens(FakeTokenizer):
        def first_token(self, target_language: str) -> int | None:
            return TAGS[target_language]

    leg = Leg(dataclasses.replace(fake_model(), tokenizer=FirstTokens()), "en", "de", FORMAL)  # type: ignore[arg-type]
    assert (leg.first_token, leg.reverse.first_token, leg.reverse.symbol) == (
        TAGS["de"],
        TAGS["en"],
        "",
    )
    assert leg.reverse.decoding_options(DecodingOptions(target=(5,))).first_token == TAGS["en"]


def test_a_leg_without_the_reverse_direction_is_not_reranked():
    leg = Leg(dataclasses.replace(fake_model(), pairs=(("en", "de"),)), "en", "de")
    assert leg.decoding_options(DecodingOptions(beam_size=3, rerank=True)) == DecodingOptions(
        beam_size=3
    )


@given(
    st.lists(st.builds(DecodingOptions, beam_size=st.integers(1, 8), rerank=st.booleans())),
    st.sampled_from([None, FORMAL]),
)
def test_a_later_request_has_the_route_and_the_options_of_the_first(options, formality):
    model = dataclasses.replace(fake_model(), formality=frozenset({"de"}))
    catalog = partial(ModelCatalog, [model])
    known = catalog()
    for each in options:
        assert known.searched("en", "de", each) == catalog().searched("en", "de", each)
        [leg] = known.route("en", "de", formality)
        [new] = catalog().route("en", "de", formality)
        assert (leg, leg.symbol) == (new, formality or "")
        assert leg.decoding_options(each) == new.decoding_options(each)


@given(st.text(st.sampled_from("ab \u00ad\u2060\u2066\u2069\ufeffé\u2011"), max_size=12))
def test_a_model_reads_no_invisible_characters_and_offsets_are_those_of_the_text(text):
    leg, text = Leg(fake_model(), "en", "de"), "a" + text
    encoding, plain = (
        leg.encode(text),
        "".join(sign for sign in text if sign not in INVISIBLE).replace("\u2011", "-"),
    )
    assert encoding.ids == leg.encode_ids(text) == leg.encode_ids(plain)
    places = [(start, end) for start, end in encoding.offsets if start < end]
    assert [text[start:end].replace("\u2011", "-") for start, end in places] == list(plain)
    assert encoding.offsets[-1] == (len(text), len(text))
