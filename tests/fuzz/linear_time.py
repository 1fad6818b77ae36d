"""Measures that preparing a text and writing its translation take linear time.

    python -m tests.fuzz.linear_time

Each kind is a part of a text that is repeated, and ends with a letter: a syntax, or its broken
beginning. The text is written as the translation of a model that writes backwards, and finished as
one sentence of a model that writes what it reads. Its processor time at 8 n characters is at most
20 times that at n = 2,500 or 5,000, the least of up to ten runs, or 13 times at n = 1,250, alone,
with a glossary of 100 terms, and with words that are not translated."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import JobResult
from server.text.exact_tokens import lost_tokens
from server.text.finishing import Finished, finish, unchanged
from server.text.glossary import Entry, TermIndex
from server.text.projection import Link
from server.text.spans import WORD
from server.translation import finish as last_pass
from server.translation import preparation
from server.translation.catalog import Leg, ModelCatalog
from server.translation.context import Draft, Form, SentenceContext
from server.translation.preparation import Segment, prepare
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import fake_model
from tests.support.engine.hostile_engine import SYMBOLS
from tests.support.texts.hostile_checks import CATALOGS

GROWTH, SURE, MOST = 8, 13, 20
# Characters of the short text, most runs, and the ratio that is small enough.
SIZES = ((1_250, 1, SURE), (2_500, 5, MOST), (5_000, 10, MOST))
# fmt: off
TEXT = (
    "a %s ", "a %s", "%", "%(a", "%(a)s ", "{a} ", "{", "{{", "{{a}}", "{{ a }} b ", "}",
    "{a, plural, one {b} other {c}} ", "{a, plural, ", "{a, plural, one {",
    "{a, plural, one {b} ", "{ $a -> [one] b *[other] c } ", "{ $a -> ", "{ $a -> [one] ", "$",
    "$a$ ", "$a ", "$x^2$ b ", "${a} ", "\\(a\\) b ", "a[", "a[b]", "f_(a", "f_(a,", "m<a,",
    "a.", "a::", "--a", "--a=", "No. 1 ", "no.", "\u2066", "\u2066a\u2069", "a,²", "\\(",
    "\\begin{a}", "\\textbf{a} b ", "\\", "[b]a[/b] ", "[b]", "[/b]", "[b", "[[a]] b ", "[[",
    "[a](b) ", "[a](", "![", "`a` b ", "`", "``a ", "```\n", "**a** b ", "**", "*a* b ", "_a",
    "~~a~~ ", "https://a.b/c d ", "https://", "www.a.b c ", "a@b.cd e ", "a@", "@a b ", "#a b ",
    "/a/b c ", "/a", "C:\\a b ", "😀 a ", "😀", "a😀b ", "猫", "สวัสดี ", "é ", "<b>a</b> ", "<b>",
    "</b>", "<a", "<0>a</0> ", "<!-- a -->", "<", "&amp; a ", "&", "{% if a %}b{% endif %} ",
    "{% if a %}", "{% endif %}", "{#if", "it''s ", "''", "'{'", "\\n", "a\n", "| a ", "a > b ",
    ":a ", ";)", "=", "a. B ", "SELECT a FROM b WHERE c = 1 ", "SELECT a, ", "SELECT a FROM ",
    "SELECT (", 'msgid "', 'msgid "a"\n', '"a","b"\n', '"a",', "a.b=c\n", "_a1", 'a:"', 'a\t"',
    'a.b="', "[a]: b:c\n", "Dialogue: ,", "00:00:00.000 --> a\n", "\\emph{a} b ", "\\emph{",
    "'''a''' b ", "'''", "***a*** b ", "***", '\\"a\\" ', "</a><a>b", "a  (b)  ", "a....1 ",
    "A B ", "1 ", "1,", "(a) ", "a) ", "((", '"a" ', "a-", "a ", "cat cat ", "NASA ", "!", "! ",
    "?!", ".", ",", ", ", "\u00a0", "a: b\n", "a:\n", "a=b\n", "a,b\n", 'a;"b"\n', ",", '"a": ',
    "![a](b) ", "[![", "[[a][b]] ", "[[a][", "[*]a ", "~\\a", "A:b\n", "a://b(", "a://b[c]",
    "a://{", '"a b.cd" ', '"a b', "[12:00] <a> ", "-Aa\n", "a  b   ", "the 2nd a ",
    "9 Uhr 15 a ", "XVIe a ", "CHF 5 a ", "+34 912 345 678 a ", "5 kg 3 a ", "0800 123 456 a ",
)
HTML = (
    "<b>a</b> ", "<b>", "</b>", "<p>a</p>", "<p>", "<br>", "a<br>", "<sup>1</sup>a ", "<sup>",
    "<ruby>a<rt>b</rt></ruby> ", "<code>a</code> b ", "<a href='b'>c</a> d ", "<a", "<!--",
    "<!-- a -->b ", "&amp; ", "&", "<i lang='fr'>a</i> b ", "<span translate=no>a</span> b ",
    "<b><i>a</b></i> ", "{{ a }} &lt; ", "<b>{a}</b> ", "<script>", "<script>a</script>b ",
    "<b 'a>", "%s &amp; ", "<li>a", "<0>a</0> ", "</0>", "<img> a ",
    "{a, plural, one {<b>b</b>} other {c}} ", "{a, plural, one {b &amp;} other {c}} ",
    "<ul><li>a. b</li></ul>", "<b>a. b</b> c ", "<i></i>a ",
)
XML = (
    "<g>a</g> ", "<g>", "</g>", "<p>a</p>", "<x/>a ", "<x/>", "<![CDATA[a]]>", "<![CDATA[",
    "<![CDATA[<b>a</b> &amp; {c}]]>", "<!--", "<!-- a -->", "<?a?>", "<?", "<!DOCTYPE", "&a; b ",
    "&amp; ", "&", "&#10;", "{{ a }} &lt; ", "<g><i>a</g></i>", "<a", "<g a='", "<g>{a}</g> ",
)
# fmt: on
TERMS = [
    Entry("cat", "Katze {a}"),
    Entry("a", "ä"),
    *[Entry(f"cat {'a ' * (n % 7)}{n}", f"Katze {n}") for n in range(98)],
]
OPTIONS: dict[str, dict[str, Any]] = {
    "alone": {},
    "glossary": {"glossary": TermIndex(TERMS)},
    "do_not_translate": {
        "do_not_translate": (*["cat " * count + "dog" for count in range(1, 40)], "a b", "b")
    },
}


LONG = ModelCatalog([replace(fake_model(max_length=1_000_000), tokenizer=SYMBOLS)])
"""A model that reads any text as one sentence."""


def links_by_position(source: str, target: str) -> list[Link]:
    """Links each word of a target to the word of its source at the same relative position."""
    words, goals = [[each.span() for each in WORD.finditer(side)] for side in (source, target)]
    size = len(words)
    return [(words[i * size // len(goals)], goal) for i, goal in enumerate(goals) if words]


class Echo(SentenceContext):
    """A segment whose model writes what it reads."""

    async def decode(self, form: Form, segment: Segment, **forced: Any) -> Draft:
        tokens = self.leg.model.tokenizer.encode_target(segment.read)
        hypothesis = Hypothesis(tokens, (0.0,) * len(tokens), 0.0, "stop")
        return Draft(segment, JobResult(0, (hypothesis,)), segment.read)

    async def links(self, read: str, ids: tuple[int, ...], tokens: tuple[int, ...]) -> list[Link]:
        return list(links_by_position(read, read))


def seconds(text: str, **fields: Any) -> float:
    """Returns the processor time of preparing and writing a text whose translation is in reverse
    order, of the last pass over one that is the same, and of the comparison with one that lacks all
    of it, both without options."""
    request = TranslationRequest(texts=(text,), source="en", target="de", **fields)
    whole = None
    if not fields:
        with patch.object(preparation, "LONGEST_READ", sys.maxsize):
            [made] = prepare(replace(request, split="none"), LONG, None)  # type: ignore[arg-type]  # detects no language
        whole = made.segmented
    began = time.process_time()
    [prepared] = prepare(request, CATALOGS[SYMBOLS], None)  # type: ignore[arg-type]
    assert prepared.segmented is not None
    prepared.segmented.join([_finished(segment) for segment in prepared.segmented.segments]).write()
    if whole is not None:
        asyncio.run(_echoed(whole.segments, made.route[0], request))
        lost_tokens(text, "a 1 " * (len(text) // 4), "en")
    return time.process_time() - began


async def _echoed(segments: Sequence[Segment], leg: Leg, request: TranslationRequest) -> None:
    options: Any = DecodingOptions()
    for segment in segments:
        await _last_pass(
            Echo(segment, leg, request, options, options, 0, _last_pass, None, None, None, {})
        )  # type: ignore[arg-type]


async def _last_pass(context: Any) -> Draft:
    draft = (
        await context.decode("beam", context.segment)
        if context.segment.ids
        else Draft(context.segment, JobResult(0))
    )
    return await last_pass.apply(context, draft)


def _finished(segment: Segment) -> Finished:
    if not segment.ids:
        return unchanged(segment.tagged)
    read = segment.reading.text
    target = read if segment.reading.stand_ins else read[::-1]
    return finish(segment.tagged, segment.reading, target, links_by_position(read, target))


def growth(part: str, **fields: Any) -> float:
    """Returns how much longer the text of the longer size takes, the least of three sizes; the
    first that is small enough ends the search. A square term that takes more than MOST times at
    2,500 characters takes more than SURE at half the size and more than MOST at twice the size. A
    processor's cache does not: it holds the short text of one size only."""
    return min(_ratios(part, fields))


def _ratios(part: str, fields: dict[str, Any]) -> Iterator[float]:
    for size, runs, enough in SIZES:
        yield (ratio := _growth(part, size, runs, enough, fields))
        if ratio <= enough:
            return


def _growth(part: str, size: int, runs: int, enough: float, fields: dict[str, Any]) -> float:
    short = long = float("inf")
    small, large = [(part * length)[:length] + "a" for length in (size, size * GROWTH)]
    seconds(small, **fields)  # fills what a process makes once
    for _ in range(runs):
        short = min(short, seconds(small, **fields))
        long = min(long, seconds(large, **fields))
        if long / short <= enough:
            break
    return long / short


def _growth_of(options: str, format: str, part: str) -> float:
    return growth(part, format=format, **OPTIONS[options])


def main() -> None:
    kinds = [
        (format, part)
        for format, parts in (("text", TEXT), ("html", HTML), ("xml", XML))
        for part in parts
    ]
    worst: list[tuple[float, str]] = []
    tasks = [(name, *kind) for name in OPTIONS for kind in kinds]
    with ProcessPoolExecutor() as processes:
        ratios = dict(zip(tasks, processes.map(_growth_of, *zip(*tasks, strict=True)), strict=True))
    for name in OPTIONS:
        found = [(ratios[name, *kind], f"{name}, {kind[0]}: {kind[1]!r}") for kind in kinds]
        worst += found
        print(
            f"{name}: {len(kinds)} kinds, the most is {max(found)[0]:.1f} times at {GROWTH} times "
            f"the text: {max(found)[1]}"
        )
    if slow := [one for one in sorted(worst, reverse=True) if one[0] > MOST]:
        sys.exit("\n".join([f"{ratio:.1f} times: {kind}" for ratio, kind in slow]))


if __name__ == "__main__":
    main()
