"""A little of `benchmarks.endurance.fuzz`: generated requests against the whole application, mutated texts through the
cutters."""

from __future__ import annotations

import asyncio
import dataclasses
import random

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.endurance import fuzz
from model.config import small
from model.model_folder import ModelFolder, TokenizerFiles
from server.config import Settings
from server.services import Services
from server.translation.catalog import ModelCatalog
from server.translation.types import TranslationRequest
from tests.integration.test_live_http import running
from tests.support.fake_engine import FakeEngine, fake_catalog, fake_model

# Generating from a schema warns about what it cannot generate.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_generated_requests_meet_no_bug(tmp_path):
    description = ModelFolder(
        path=tmp_path,
        name="toy",
        model=small(100),
        pairs=(("en", "de"),),
        tags={},
        license="MIT",
        origin="",
        tokenizer=TokenizerFiles(),
    )
    (tmp_path / "config.json").write_text(description.to_json())
    catalog = ModelCatalog([dataclasses.replace(fake_model(), folder=tmp_path)])
    with (
        running(FakeEngine(), catalog, timeout_seconds=5) as (url, _),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        findings = fuzz.ask(client, 400)
    assert findings.faults == []
    assert findings.outcomes["200"] > 20
    assert findings.outcomes["400"] > 20


def test_mutated_texts_lose_nothing():
    assert fuzz.mutate(1_000).faults == []


def test_findings_are_found():
    """The checks themselves: an answer with a stack trace, an error without a sentence, a lost character."""
    bodies = iter([(500, b"{}"), (200, b'Traceback (most ... File "x"'), (400, b'{"detail": []}'), (200, b"ok")])

    def answer(request: httpx.Request) -> httpx.Response:
        status, body = next(bodies)
        return httpx.Response(status, content=body, headers={"content-type": "application/json"})

    client = httpx.Client(base_url="http://test", transport=httpx.MockTransport(answer))
    findings = fuzz.Findings()
    for _ in range(4):
        fuzz.inspect(client, {"method": "GET", "url": "/"}, findings)
    assert len(findings.faults) == 3
    assert findings.report(1.0) == 1


def test_mutants_are_the_same_for_the_same_seed():
    assert list(fuzz.mutants(50, random.Random(3))) == list(fuzz.mutants(50, random.Random(3)))


@given(text=st.text(st.characters(codec="utf-8"), max_size=200), format=st.sampled_from(["text", "html"]))
def test_what_is_not_translated_is_returned_byte_for_byte(text, format):
    services = Services(Settings(), FakeEngine(), fake_catalog())
    wanted = TranslationRequest(texts=(text,), source="en", target="en", format=format)
    [done] = asyncio.run(services.translator.translate(wanted))
    assert done.text.encode() == text.encode()
