"""Abuse in numbers: generated requests against a server, and mutated texts through segmentation and markup.

    python -m benchmarks.endurance.fuzz requests http://127.0.0.1:8000 --count 20000
    python -m benchmarks.endurance.fuzz texts --count 200000

Ends with status 1 and the first findings where there are any.
"""

from __future__ import annotations

import argparse
import html
import random
import re
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

from server.api.compat.xml_tags import TagRules, mask
from server.text.html_passages import parse_passages, scan_markup
from server.text.segmentation import BREAKS, BULLET, CONTROLS, split_long_sentence, split_sentences

SLOW_SECONDS = 60.0
SHOWN = 20
LANGUAGES = ("en", "de", "fr", "es", "ru", "zh", "ja", "ar", "xx")
SEEDS = (
    "Hello world. How are you? I am fine!",
    "Dr. Smith paid $3.50 at 5 p.m. e.g. for tea\tand cake.\r\nNext line",
    "Ein Satz. Noch einer; und – so weiter … „Zitat“ (Klammer).",
    "你好世界。今天天气很好！是吗？",
    "Привет, мир! Как дела? Всё хорошо.",
    "مرحبا بالعالم. كيف حالك؟",
    "e\u0301 n\u0303 \u200b\u200d\ufeff 👩‍👩‍👧 \U0001f1e9\U0001f1ea \x00\x85\u2028",
    '<p>One <b>two <i class="a>b">three</i></b> four</p><br/><img alt="x > y">five',
    "<!-- c --><script>if (a<b) {}</script><a href='?x=1&y=2'>link</a> &amp; &lt; &nbsp; &#8364;",
    '<x id="1">keep</x> and <g id="2">move</g> <y/>',
    "<ul><li>1<li>2</ul><code>x < y</code><span translate='no'>brand</span>",
)
MORSELS = (
    "<",
    ">",
    "</",
    "<b>",
    "</b>",
    "<!--",
    "-->",
    "&",
    ";",
    '"',
    "'",
    ".",
    "\n",
    " ",
    "\x00",
    "\ud7ff",
    "x" * 50,
    "<p ",
)


@dataclass(slots=True)
class Findings:
    """What was seen: a count of each outcome, and what must not be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def report(self, seconds: float) -> int:
        """Prints a summary; the result is the exit status."""
        total = sum(self.outcomes.values())
        print(f"{total:,} in {seconds:,.0f} s; slowest {self.slowest:.2f} s; {len(self.faults):,} faults")
        print(", ".join(f"{name}: {count:,}" for name, count in sorted(self.outcomes.items())))
        for fault in self.faults[:SHOWN]:
            print("FAULT", fault)
        return 1 if self.faults or not total else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance.fuzz", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    generated = commands.add_parser("requests", help="generated requests against a running server")
    generated.add_argument("url")
    generated.add_argument("--count", type=int, default=20_000)
    texts = commands.add_parser("texts", help="mutated texts through segmentation and markup")
    texts.add_argument("--count", type=int, default=200_000)
    texts.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    began = time.monotonic()
    if options.command == "texts":
        found = mutate(options.count, options.seed)
    else:
        with httpx.Client(base_url=options.url, timeout=SLOW_SECONDS) as client:
            found = ask(client, options.count)
    return found.report(time.monotonic() - began)


def ask(client: httpx.Client, count: int) -> Findings:
    """Half of the requests follow the server's own OpenAPI document, or break it on purpose; half are wilder."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = []
    for found in schema.get_all_operations():
        if isinstance(found, Err):  # the server describes a route wrongly
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
    def by_the_document(case: schemathesis.Case[Any]) -> None:
        prepared = requests.Request(**case.as_transport_kwargs(base_url=base)).prepare()
        send(method=prepared.method, url=prepared.url, headers=dict(prepared.headers), content=prepared.body)

    @quiet
    @given(wild(places))
    def by_nothing(parts: dict[str, Any]) -> None:
        method, path = parts.pop("place")
        send(method=method, url=path, **parts)

    by_the_document()
    by_nothing()
    bar.close()
    return findings


def inspect(client: httpx.Client, parts: dict[str, Any], findings: Findings) -> None:
    """Sends one request and looks at the answer."""
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
    except httpx.HTTPError as error:  # a request that HTTP itself does not allow
        findings.outcomes[type(error).__name__] += 1
        return
    seconds = time.monotonic() - began
    findings.slowest = max(findings.slowest, seconds)
    findings.outcomes[str(answer.status_code)] += 1
    body = answer.content
    if answer.status_code >= 500 or b"Traceback" in body or b'File "' in body:
        findings.faults.append(f"{answer.status_code} {request.method} {request.url}: {body[:300]!r}")
    elif answer.status_code >= 400 and request.method != "HEAD" and not told(answer):
        findings.faults.append(f"no sentence: {answer.status_code} {request.method} {request.url}: {body[:300]!r}")


def told(answer: httpx.Response) -> bool:
    """Whether an error is a JSON object with one string, in whichever dialect."""
    if not answer.headers.get("content-type", "").startswith("application/json"):
        # What is no HTTP is refused by the HTTP library before it reaches the application.
        return answer.headers.get("content-type", "").startswith("text/plain") and answer.status_code == 400
    body = answer.json()
    error = body.get("error") or body.get("message")
    return isinstance(error["message"] if isinstance(error, dict) else error, str)


def wild(places: Sequence[tuple[str, str]]) -> st.SearchStrategy[dict[str, Any]]:
    """Requests that no document foresees: any body under any content type at every (method, path), and beside them."""
    words = st.sampled_from(["en", "de", "auto", "", "xx", "EN-GB", "zh-Hans", "\x00", "🙂"])
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | words,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )
    names = st.sampled_from(
        "q source target format alternatives api_key stream stream_tokens beam_size length_penalty max_length details timeout "
        "masked_heads id sentence leg layer head kind translation text target_lang source_lang tag_handling ignore_tags "
        "split_sentences key type s".split()
    )
    fields = st.dictionaries(names, values | words, max_size=8)
    good = {"q": "The dog sleeps.", "source": "en", "target": "de", "text": ["Hi"], "target_lang": "DE"}
    likely = fields.map(lambda more: good | more)
    kinds = st.sampled_from(
        [
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain",
            "",
            "a/b+json",
        ]
    )
    hostile = [b"[" * 5000, b'{"q":' * 2000, b"--x\r\n\r\n--x--", b"q=%ff&source=%", b"\xff"]
    raw = st.binary(max_size=200) | st.sampled_from(hostile)
    headers = st.dictionaries(
        st.sampled_from(["Authorization", "X-Request-Timeout", "X-Request-Id", "Accept", "Origin", "X-Forwarded-For"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
        max_size=3,
    )
    strange = st.tuples(
        st.sampled_from(["POST", "GET", "PUT", "DELETE", "OPTIONS", "HEAD"]),
        st.sampled_from([*[path for _, path in places], "/nothing", "/v2/nothing", "/docs"]),
    )
    place = st.one_of(*[st.sampled_from(list(places))] * 9, strange)
    shared = {"place": place, "headers": headers}
    plain = st.text(max_size=40) | words
    flat = st.dictionaries(names, plain | st.lists(plain, max_size=3), max_size=6)
    return st.one_of(
        st.fixed_dictionaries(shared | {"json": likely | fields | values}),
        st.fixed_dictionaries(shared | {"data": flat}),
        st.fixed_dictionaries(shared | {"params": flat}),
        st.builds(
            lambda parts, kind: parts | {"headers": parts["headers"] | {"Content-Type": kind}},
            st.fixed_dictionaries(shared | {"content": raw}),
            kinds,
        ),
    )


def mutate(count: int, seed: int = 0) -> Findings:
    """Texts that grew out of the seeds, each looked at in every way. Nothing may get lost, byte for byte."""
    findings = Findings()
    chance = random.Random(seed)
    for text in tqdm(mutants(count, chance), total=count, unit="text", disable=not sys.stderr.isatty()):
        began = time.monotonic()
        for fault in losses(text, chance.choice(LANGUAGES), chance.randint(1, 12)):
            findings.faults.append(f"{fault}: {text!r}")
        findings.slowest = max(findings.slowest, time.monotonic() - began)
        findings.outcomes["markup" if "<" in text else "plain"] += 1
    return findings


def mutants(count: int, chance: random.Random) -> Iterator[str]:
    """So many texts; each is one of the last hundred changed in one to four places."""
    pool = list(SEEDS)
    for _ in range(count):
        text = chance.choice(pool)
        for _ in range(chance.randint(1, 4)):
            text = changed(text, chance)
        text = text[:2_000]
        if chance.random() < 0.4:
            text = text.replace("<", "")
        pool.append(text)
        if len(pool) > 100:
            pool[chance.randrange(len(SEEDS), 100)] = pool.pop()
        yield text


def changed(text: str, chance: random.Random) -> str:
    """One mutation: something cut out, doubled, put in, replaced, or another seed spliced in."""
    start = chance.randint(0, len(text))
    end = min(len(text), start + chance.randint(0, 20))
    match chance.randrange(5):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:end] + text[start:end] + text[end:]
        case 2:
            return text[:start] + chance.choice(MORSELS) + text[start:]
        case 3:
            number = chance.choice((chance.randrange(0x20), chance.randrange(0x250), chance.randrange(0xD800), 0x1F600))
            return text[:start] + chr(number) + text[end:]
        case _:
            return text[:start] + chance.choice(SEEDS) + text[end:]


def losses(text: str, language: str, limit: int) -> Iterator[str]:
    """Names of the properties that this text breaks."""
    for split, breaks in (("all", BREAKS), ("punctuation", CONTROLS), ("none", CONTROLS)):
        spans = split_sentences(text, language, split)  # type: ignore[arg-type]
        starts, ends = [start for start, _ in spans] + [len(text)], [0] + [end for _, end in spans]
        between = [text[a:b] for a, b in zip(ends, starts, strict=True)]
        inside = [text[a:b] for a, b in spans]
        rejoined = "".join(part for pair in zip(between, [*inside, ""], strict=True) for part in pair)
        if rejoined.encode() != text.encode() or any(carries(separator, breaks) for separator in between):
            yield f"segmentation ({split})"
    pieces = split_long_sentence(text, range(len(text)), limit)
    if "".join("".join(text[a:b].split()) for a, b in pieces) != "".join(text.split()):
        yield "cutting"
    if "".join(token if isinstance(token, str) else token.raw for token in scan_markup(text)).encode() != text.encode():
        yield "scanning"
    rendered = "".join(passage.render(passage.text) for passage in parse_passages(text, "html"))
    if html.unescape(rendered) != html.unescape(text):
        yield "markup"
    for xml in (True, False):
        masked = mask(text, TagRules(xml, frozenset({"x"}), frozenset({"p"})))
        if masked.restore(masked.text, xml=False).encode() != text.encode():
            yield "masking"


def carries(separator: str, breaks: re.Pattern[str]) -> bool:
    """Whether there is something to translate between two sentences: more than white space and a list's bullet."""
    left = breaks.sub("", separator).strip()
    bullet = BULLET.match(left + " x")
    return bool(left) and (bullet is None or bullet.end() <= len(left))


if __name__ == "__main__":
    sys.exit(main())
