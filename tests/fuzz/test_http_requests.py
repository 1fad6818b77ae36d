"""Every generated request gets a status below 500 and a body of the right form. `FUZZ_EXAMPLES=20000` sends more."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import httpx
import pytest

from model.config import small
from model.model_folder import ModelFolder, TokenizerFiles
from server.translation.catalog import ModelCatalog
from tests.fuzz.http_requests import Findings, inspect, send_requests
from tests.support.fake_engine import FakeEngine, fake_model
from tests.support.in_process import running

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))

# Generating from a schema warns about what it cannot generate.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_generated_requests_break_no_invariant(tmp_path: Path) -> None:
    description = ModelFolder(
        path=tmp_path, name="toy", model=small(100), pairs=(("en", "de"),), tags={}, license="MIT", origin="",
        tokenizer=TokenizerFiles(),
    )  # fmt: skip
    (tmp_path / "config.json").write_text(description.to_json())
    catalog = ModelCatalog([dataclasses.replace(fake_model(), folder=tmp_path)])
    with (
        running(FakeEngine(), catalog, timeout_seconds=60) as (url, _),
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        findings = send_requests(client, EXAMPLES)
    assert findings.faults == []
    assert findings.outcomes["200"] > 20
    assert findings.outcomes["400"] > 20


def test_faults_are_detected() -> None:
    bodies = iter([
        (500, b"{}"), (200, b'Traceback (most ... File "x"'), (400, b'{"detail": []}'), (400, b'{"error": "No.", "more": 1}'),
        (200, b'{"translatedText": ["a"], "id": ["b"]}'), (200, b'{"translatedText": ["a", "b"], "id": ["c", "d"]}'),
    ])  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        status, body = next(bodies)
        return httpx.Response(status, content=body, headers={"content-type": "application/json", "x-request-id": "1"})

    client = httpx.Client(base_url="http://test", transport=httpx.MockTransport(answer))
    findings = Findings()
    for _ in range(6):
        inspect(client, {"method": "POST", "url": "/translate", "json": {"q": ["a", "b"]}}, findings)
    assert len(findings.faults) == 5
    assert findings.report(1.0) == 1
