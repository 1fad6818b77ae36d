"""Generated HTTP requests to a running server: half follow or violate its OpenAPI document, half are arbitrary.

python -m tests.fuzz http http://127.0.0.1:8000 --count 20000
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Err
from tqdm import tqdm

TIMEOUT_SECONDS = 60.0
SHOWN = 20
LIBRETRANSLATE = ("/translate", "/detect", "/attention")
"""Routes whose errors are exactly `{"error": "sentence"}`."""
LANGUAGES = ("en", "de", "fr", "auto", "EN", "", "xx", "EN-GB", "pt-BR", "zh-Hans", "e\x00")
TEXTS = ("Hello. World!", "<p>a <b>b</b></p>", "a" * 3_000, "\x00", "🙂", "\n\n", "\ud800")
FIELDS = (
    "q source target format alternatives api_key stream stream_tokens beam_size length_penalty max_length details timeout "
    "masked_heads id sentence leg layer head kind translation text target_lang source_lang tag_handling ignore_tags "
    "split_sentences key type s x"
).split()
CONTENT_TYPES = (
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "multipart/form-data; boundary=x",
    "text/plain", "", "a/b+json",
)  # fmt: skip
BODIES = (b"[" * 5000, b'{"q":' * 2000, b"--x\r\n\r\n--x--", b"q=%ff&source=%", b"\xff")
HEADERS = ("Authorization", "X-Request-Timeout", "X-Request-Id", "Accept", "Origin", "X-Forwarded-For")
METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")


@dataclass(slots=True)
class Findings:
    """Counts of outcomes, and descriptions of broken invariants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def report(self, seconds: float) -> int:
        """Prints a summary and returns the exit status."""
        total = sum(self.outcomes.values())
        print(f"{total:,} in {seconds:,.0f} s; slowest {self.slowest:.2f} s; {len(self.faults):,} faults")
        print(", ".join(f"{name}: {count:,}" for name, count in sorted(self.outcomes.items())))
        for fault in self.faults[:SHOWN]:
            print("FAULT", fault)
        return 1 if self.faults or not total else 0


def main(arguments: Sequence[str]) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz http", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("url", help="address of a running server")
    parser.add_argument("--count", type=int, default=20_000, help="number of requests")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with httpx.Client(base_url=options.url, timeout=TIMEOUT_SECONDS) as client:
        found = send_requests(client, options.count)
    return found.report(time.monotonic() - began)


def send_requests(client: httpx.Client, count: int) -> Findings:
    """Sends `count` generated requests and checks every answer."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = []
    for found in schema.get_all_operations():
        if isinstance(found, Err):  # an invalid operation in the OpenAPI document
            raise found.err()
        operations.append(found.ok())
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    described = st.one_of([operation.as_strategy(generation_mode=mode) for operation in operations for mode in modes])
    places = [(operation.method.upper(), operation.path) for operation in operations]
    findings = Findings()
    bar = tqdm(total=count, unit="request", disable=not sys.stderr.isatty())
    base = str(client.base_url)

    def send(**parts: Any) -> None:
        inspect(client, parts, findings)
        bar.update()

    quiet = settings(
        max_examples=count // 2, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    @quiet
    @given(described)
    def from_schema(case: schemathesis.Case[Any]) -> None:
        prepared = requests.Request(**case.as_transport_kwargs(base_url=base)).prepare()
        send(method=prepared.method, url=prepared.url, headers=dict(prepared.headers), content=prepared.body)

    @quiet
    @given(arbitrary_requests(places))
    def from_nothing(parts: dict[str, Any]) -> None:
        method, path = parts.pop("place")
        send(method=method, url=path, **parts)

    from_schema()
    from_nothing()
    bar.close()
    return findings


def inspect(client: httpx.Client, parts: dict[str, Any], findings: Findings) -> None:
    """Sends one request and records its outcome and broken invariants."""
    began = time.monotonic()
    try:
        request = client.build_request(**parts)
    except (ValueError, TypeError, httpx.InvalidURL):
        findings.outcomes["cannot be sent"] += 1
        return
    try:
        answer = client.send(request)
    except httpx.TimeoutException:
        findings.faults.append(f"no answer: {request.method} {request.url.path}")
        findings.outcomes["no answer"] += 1
        return
    except httpx.HTTPError as error:  # the HTTP library cannot send this request
        findings.outcomes[type(error).__name__] += 1
        return
    findings.slowest = max(findings.slowest, time.monotonic() - began)
    findings.outcomes[str(answer.status_code)] += 1
    for fault in faults(request, answer):
        findings.faults.append(
            f"{fault}: {answer.status_code} {request.method} {request.url}: {answer.content[:300]!r}"
        )


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
        if texts is not None and any(len(body[key]) != len(texts) for key in ("translatedText", "id")):
            yield "not one answer per text"


def has_sentence(body: Any) -> bool:
    """Returns True if the body of an error is a JSON object with a message, in the format of any supported API."""
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
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )
    names = st.sampled_from(FIELDS)
    fields = st.dictionaries(names, values | words, max_size=8)
    valid = {"q": "The dog sleeps.", "source": "en", "target": "de", "text": ["Hi"], "target_lang": "DE"}
    lists = st.lists(plain, max_size=4).map(lambda texts: valid | {"q": texts})
    flat = st.dictionaries(names, plain | st.lists(plain, max_size=3), max_size=6)
    headers = st.dictionaries(
        st.sampled_from(HEADERS), st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), max_size=3
    )
    visible = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=40)
    paths = st.sampled_from(["/nothing", "/v2/nothing", "/docs", *(path for _, path in places)])
    other = st.tuples(st.sampled_from(METHODS), paths | visible.map(lambda text: "/a" + text))
    main_routes = st.sampled_from([("POST", "/translate"), ("POST", "/detect"), ("GET", "/attention")])
    shared = {"place": st.one_of(st.sampled_from(list(places)), main_routes, other), "headers": headers}

    def typed(parts: dict[str, Any], kind: str) -> dict[str, Any]:
        return parts | {"headers": parts["headers"] | {"Content-Type": kind}}

    def json_body(parts: dict[str, Any], body: Any) -> dict[str, Any]:
        return typed(parts | {"content": json.dumps(body).encode()}, "application/json")  # with NaN and lone surrogates

    base = st.fixed_dictionaries(shared)
    raw = st.fixed_dictionaries(shared | {"content": st.binary(max_size=200) | st.sampled_from(BODIES)})
    return st.one_of(
        st.builds(json_body, base, fields.map(lambda more: valid | more) | lists | fields | values),
        st.fixed_dictionaries(shared | {"data": flat}),
        st.fixed_dictionaries(shared | {"params": flat}),
        st.builds(typed, raw, st.sampled_from(CONTENT_TYPES)),
    )
