"""Every generated request gets a status below 500 and a body of the right form. Half of the
requests follow or violate the OpenAPI document, half are arbitrary. `FUZZ_EXAMPLES=20000` sends
more."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from server.models.discovery import read_model
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import running
from tests.support.servers.live import tiny_model

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))
LIBRETRANSLATE = ("/translate", "/detect", "/attention")
"""Routes whose errors are exactly `{"error": "sentence"}`."""
LANGUAGES = ("en", "de", "fr", "auto", "EN", "", "xx", "EN-GB", "pt-BR", "zh-Hans", "e\x00")
TEXTS = ("Hello. World!", "<p>a <b>b</b></p>", "a" * 3_000, "\x00", "🙂", "\n\n", "\ud800")
FIELDS = (
    "q source target format alternatives api_key stream stream_tokens beam_size length_penalty "
    "max_length details timeout "
    "masked_heads id sentence leg layer head kind translation text target_lang source_lang "
    "tag_handling ignore_tags "
    "split_sentences key type s x"
).split()
FORM = "multipart/form-data"
CONTENT_TYPES = (
    *f"application/json {FORM} application/x-www-form-urlencoded text/plain a/b+json".split(),
    "",
    FORM + "; boundary=x",
)
BODIES = (b"[" * 5000, b'{"q":' * 2000, b"--x\r\n\r\n--x--", b"q=%ff&source=%", b"\xff")
HEADERS = (
    "Authorization",
    "X-Request-Timeout",
    "X-Request-Id",
    "Accept",
    "Origin",
    "X-Forwarded-For",
)
METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")

# Generating from a schema warns about what it cannot generate.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_generated_requests_break_no_invariant(tmp_path: Path) -> None:
    # GET /encoder reads the weights
    catalog = ModelCatalog([read_model(tiny_model(tmp_path / "tiny"))])
    with (
        running(FakeEngine(), catalog, timeout_seconds=60) as (url, _),
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        broken, outcomes = send_requests(client, EXAMPLES)
    assert broken == []
    assert outcomes["200"] > 20 and outcomes["400"] > 20


def send_requests(client: httpx.Client, count: int) -> tuple[list[str], Counter[str]]:
    """Sends `count` generated requests. Returns descriptions of broken invariants, and the number
    of each outcome."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = [operation.ok() for operation in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    described = st.one_of(
        [operation.as_strategy(generation_mode=mode) for operation in operations for mode in modes]
    )
    places = [(operation.method.upper(), operation.path) for operation in operations]
    broken: list[str] = []
    outcomes: Counter[str] = Counter()
    quiet = settings(
        max_examples=count // 2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def send(**parts: Any) -> None:
        try:
            request = client.build_request(**parts)
            answer = client.send(request)
        except httpx.TimeoutException:
            broken.append(f"no answer: {parts}")
        except (ValueError, TypeError, httpx.InvalidURL, httpx.HTTPError):
            outcomes["cannot be sent"] += 1
        else:
            outcomes[str(answer.status_code)] += 1
            seen = f"{answer.status_code} {request.method} {request.url}: {answer.content[:300]!r}"
            broken.extend(f"{fault}: {seen}" for fault in faults(request, answer))

    @quiet
    @given(described)
    def from_schema(case: schemathesis.Case[Any]) -> None:
        prepared = requests.Request(
            **case.as_transport_kwargs(base_url=str(client.base_url))
        ).prepare()
        send(
            method=prepared.method,
            url=prepared.url,
            headers=dict(prepared.headers),
            content=prepared.body,
        )

    @quiet
    @given(arbitrary_requests(places))
    def from_nothing(parts: dict[str, Any]) -> None:
        method, path = parts.pop("place")
        send(method=method, url=path, **parts)

    from_schema()
    from_nothing()
    return broken, outcomes


def faults(request: httpx.Request, answer: httpx.Response) -> Iterator[str]:
    """Yields the invariants that an answer breaks."""
    kind, path = answer.headers.get("content-type", ""), request.url.path
    if answer.status_code >= 500 or b"Traceback" in answer.content or b'File "' in answer.content:
        yield "internal error"
        return
    if answer.status_code == 400 and kind.startswith("text/plain"):
        return  # uvicorn refuses invalid HTTP before the application sees it
    if not answer.headers.get("x-request-id"):
        yield "no request id"
    if request.method == "HEAD":
        return
    if answer.status_code >= 400:
        body = answer.json() if kind.startswith("application/json") else None
        if not has_sentence(body):
            yield "no sentence"
        elif path in LIBRETRANSLATE and (set(body) != {"error"} or not body["error"]):
            yield "not LibreTranslate's error"
    elif path == "/translate" and answer.status_code == 200 and kind.startswith("application/json"):
        texts, body = texts_of(request), answer.json()
        if texts is not None and any(
            len(body[key]) != len(texts) for key in ("translatedText", "id")
        ):
            yield "not one answer per text"


def has_sentence(body: Any) -> bool:
    """Returns True if the body of an error is a JSON object with a message, in the format of any
    supported API."""
    if not isinstance(body, dict):
        return False
    error = body.get("error") or body.get("message")
    return isinstance(error["message"] if isinstance(error, dict) else error, str)


def texts_of(request: httpx.Request) -> list[Any] | None:
    """Returns the list `q` of a JSON body, or None."""
    try:
        body = json.loads(request.content)
    except ValueError:
        return None
    texts = body.get("q") if isinstance(body, dict) else None
    return texts if isinstance(texts, list) else None


def arbitrary_requests(places: Sequence[tuple[str, str]]) -> st.SearchStrategy[dict[str, Any]]:
    """Requests with any body under any content type to every (method, path), and to other paths."""
    words = st.sampled_from([*LANGUAGES, *TEXTS])
    plain = st.text(max_size=40) | words
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | plain,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
        max_leaves=12,
    )
    names = st.sampled_from(FIELDS)
    fields = st.dictionaries(names, values | words, max_size=8)
    valid = {
        "q": "The dog sleeps.",
        "source": "en",
        "target": "de",
        "text": ["Hi"],
        "target_lang": "DE",
    }
    lists = st.lists(plain, max_size=4).map(lambda texts: valid | {"q": texts})
    flat = st.dictionaries(names, plain | st.lists(plain, max_size=3), max_size=6)
    headers = st.dictionaries(
        st.sampled_from(HEADERS),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
        max_size=3,
    )
    visible = st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=40
    )
    paths = st.sampled_from(["/nothing", "/v2/nothing", "/docs", *(path for _, path in places)])
    other = st.tuples(st.sampled_from(METHODS), paths | visible.map(lambda text: "/a" + text))
    main_routes = st.sampled_from(
        [("POST", "/translate"), ("POST", "/detect"), ("GET", "/attention")]
    )
    shared = {
        "place": st.one_of(st.sampled_from(list(places)), main_routes, other),
        "headers": headers,
    }

    def typed(parts: dict[str, Any], kind: str) -> dict[str, Any]:
        return parts | {"headers": parts["headers"] | {"Content-Type": kind}}

    def json_body(parts: dict[str, Any], body: Any) -> dict[str, Any]:
        # with NaN and lone surrogates
        return typed(parts | {"content": json.dumps(body).encode()}, "application/json")

    base = st.fixed_dictionaries(shared)
    raw = st.fixed_dictionaries(
        shared | {"content": st.binary(max_size=200) | st.sampled_from(BODIES)}
    )
    return st.one_of(
        st.builds(json_body, base, fields.map(lambda more: valid | more) | lists | fields | values),
        st.fixed_dictionaries(shared | {"data": flat}),
        st.fixed_dictionaries(shared | {"params": flat}),
        st.builds(typed, raw, st.sampled_from(CONTENT_TYPES)),
    )
