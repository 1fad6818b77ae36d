"""Whatever is sent, the answer is a status below 500 and a JSON body of the right shape."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from server.api.app import create_app
from server.config import Settings
from server.services import Services
from tests.support.fake_engine import FakeEngine, fake_catalog

# FUZZ_EXAMPLES=4000 asks for a long run.
EXAMPLES = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")), deadline=None, suppress_health_check=list(HealthCheck)
)

texts = st.text(max_size=60) | st.sampled_from(
    ["Hello. World!", "<p>a <b>b</b></p>", "a" * 3_000, "\x00", "😀", "\n\n"]
)
codes = st.sampled_from(["en", "de", "fr", "auto", "EN", "xx", "", "pt-BR", "zh", "e\x00"]) | st.text(max_size=4)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
parameters = st.fixed_dictionaries(
    {},
    optional={
        "q": texts | st.lists(texts, max_size=3) | junk,
        "source": codes | junk,
        "target": codes | junk,
        "format": st.sampled_from(["text", "html", "HTML"]) | junk,
        "alternatives": st.integers(-2, 12) | junk,
        "beam_size": st.integers(-2, 40) | junk,
        "length_penalty": st.floats() | junk,
        "max_length": st.integers(-2, 300) | junk,
        "details": st.booleans() | junk,
        "timeout": st.floats(0.5, 100) | junk,
        "api_key": junk,
        "x": junk,
    },
)
good = st.fixed_dictionaries({"q": texts | st.lists(texts, max_size=4), "source": codes, "target": codes}, optional={
    "format": st.sampled_from(["text", "html"]), "alternatives": st.integers(0, 3), "details": st.booleans(),
})  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[TestClient]:
    """A client that is shown errors as responses, like every real one."""
    app = create_app(Settings(), Services(Settings(), FakeEngine(), fake_catalog()))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def check(answer) -> None:
    assert answer.status_code < 500, answer.text
    body = answer.json()
    if answer.status_code >= 400:
        assert set(body) == {"error"} and isinstance(body["error"], str) and body["error"]
        assert "Traceback" not in body["error"]
    assert answer.headers["x-request-id"]


@EXAMPLES
@given(parameters | good)
def test_any_json(browser, body):
    content = json.dumps(body).encode()  # with lone surrogates, NaN and all
    check(browser.post("/translate", content=content, headers={"Content-Type": "application/json"}))


@EXAMPLES
@given(good)
def test_good_requests_get_one_answer_per_text(browser, body):
    answer = browser.post("/translate", json=body)
    check(answer)
    if answer.status_code == 200 and isinstance(body["q"], list):
        found = answer.json()
        assert all(len(found[key]) == len(body["q"]) for key in ("translatedText", "id"))


@EXAMPLES
@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/x-www-form-urlencoded", "text/plain", "",
                                                 "multipart/form-data; boundary=b", "multipart/form-data"]))  # fmt: skip
def test_any_body(browser, content, kind):
    for path in ("/translate", "/detect"):
        check(browser.post(path, content=content, headers={"Content-Type": kind}))


@EXAMPLES
@given(st.dictionaries(st.sampled_from(["id", "q", "source", "target", "translation", "sentence", "leg", "kind", "layer",
                                        "head", "beam_size"]), texts | codes | st.integers().map(str), max_size=7))  # fmt: skip
def test_any_query_for_attention(browser, query):
    check(browser.get("/attention", params=query | {"format": "json"}))


@EXAMPLES
@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40),
    st.sampled_from(["GET", "POST", "PUT", "PATCH"]),
)
def test_any_path(browser, path, method):
    answer = browser.request(method, "/a" + path.replace("#", "").replace("?", ""), follow_redirects=False)
    assert answer.status_code < 500
