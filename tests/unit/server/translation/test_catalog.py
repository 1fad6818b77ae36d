"""Routes between languages."""

from __future__ import annotations

import pytest

from server.errors import UnsupportedLanguage
from server.translation.catalog import ModelCatalog
from tests.support.fake_engine import fake_model


def test_a_route_is_direct_or_uses_english_as_the_first_choice_of_pivot():
    pairs = [("de", "en"), ("en", "fr"), ("de", "es"), ("es", "fr"), ("fr", "it"), ("en", "de")]
    catalog = ModelCatalog([fake_model("b", pairs[:3]), fake_model("a", pairs[3:])])

    def route(source: str, target: str) -> list[tuple[str, str, str]]:
        return [(leg.model.name, leg.source, leg.target) for leg in catalog.route(source, target)]

    assert route("de", "de") == []
    assert route("de", "en") == [("b", "de", "en")]
    assert route("de", "fr") == [("b", "de", "en"), ("b", "en", "fr")]
    assert catalog.targets("de") == ("de", "en", "es", "fr")
    with pytest.raises(UnsupportedLanguage, match="no model"):
        route("fr", "de")
    for source in catalog.sources:
        for target in catalog.targets(source):
            catalog.route(source, target)
