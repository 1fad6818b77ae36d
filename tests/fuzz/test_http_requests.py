"""Every generated request gets a status below 500 and a body of the right form. `FUZZ_EXAMPLES=20000` sends more."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from server.translation.catalog import ModelCatalog
from server.translation.model_discovery import read_model
from tests.fuzz.http_requests import Findings, inspect, send_requests
from tests.support.fake_engine import FakeEngine
from tests.support.in_process import running
from tests.support.live import tiny_model

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))

# Generating from a schema warns about what it cannot generate.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_generated_requests_break_no_invariant(tmp_path: Path) -> None:
    catalog = ModelCatalog([read_model(tiny_model(tmp_path / "tiny"))])  # GET /encoder reads the weights
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
