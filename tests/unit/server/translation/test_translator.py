"""The steps of a translation on the fake engine, which reverses every sentence."""

from __future__ import annotations

import asyncio

import pytest

from server.config import Settings
from server.services import Services
from server.text import html_passages
from server.translation.types import Translation, TranslationRequest
from tests.support.fake_engine import FakeEngine, fake_catalog

PAGE = "<p>Das <b>rote Haus</b> ist groß</p><ul><li>a &amp; <i>b</i></li></ul>"


def translate(source: str, target: str) -> Translation:
    async def scenario() -> Translation:
        services = Services(Settings(), FakeEngine(), fake_catalog())
        await services.start()
        await services.loaded()
        request = TranslationRequest(texts=(PAGE,), source=source, target=target, format="html")
        [translation] = await services.translator.translate(request)
        await services.stop()
        return translation

    return asyncio.run(scenario())


@pytest.mark.parametrize(("source", "target", "legs"), [("de", "en", 1), ("de", "fr", 2), ("auto", "fr", 2)])
def test_html_is_parsed_once_per_request(monkeypatch, source, target, legs):
    parsed = []
    scan = html_passages.scan_markup
    monkeypatch.setattr(html_passages, "scan_markup", lambda text: parsed.append(text) or scan(text))
    translation = translate(source, target)
    assert parsed == [PAGE] and len(translation.legs) == legs


def test_markup_follows_its_words_over_two_legs():
    assert translate("de", "fr").text == PAGE  # reversed twice
