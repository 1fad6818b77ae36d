"""Finds the parts of a text that every translation contains unchanged, before the text is translated.

Names, numbers, dates and versions, which models usually copy, are compared afterwards (`server.text.protection.copied`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from server.text.languages import ADDRESS, may_hold_address
from server.text.protection.messages import MessageParser
from server.text.protection.patterns import INLINE_TAGS, KIND, MAY_HOLD, PATH, ROLES, SIGN, Role
from server.text.segmentation import Span

CLOSING = ".,;:!?)]}\"'»”’…"
"""Characters after an address that belong to the sentence."""
NUMBER_SIGN = "#"
"""Stands for the number in the arms of an ICU message."""
_GLUE = re.compile(r"[^\w\s'\"()\[\]<>{}«»„“”‚‘’]{0,3}| & ")
"""Signs between placeholders that are one word of the sentence: %d-%d, {0}/{1}, {0} & {1}."""
_NAMES = ("start_name", "end_name", "helper", "end_helper", "statement", "end_statement", "code_name", "code_end")
_RUN = re.compile(r"\S*")
_LETTER = re.compile(r"[^\W_]")


class ProtectedSpan(NamedTuple):
    """A span of a text that every translation contains once and unchanged.

    Roles: "word" and "number" stand for a word of the sentence. A "point" stands between words. "open" and "close"
    surround words that are translated. A "break" separates sentences. The arms of an "icu" message are translated on
    their own. An "apostrophe" is doubled or has a backslash (it''s); those of the translation are written alike. `written`
    is what the translation contains instead of the span, if it is not the span itself.
    """

    start: int
    end: int
    role: Role
    name: str = ""
    written: str = ""


def find_protected_spans(text: str, kept: tuple[str, ...] = ()) -> list[ProtectedSpan]:
    """Returns the protected spans of a text in order. They do not overlap. The words of `kept` are further ones."""
    if not kept and MAY_HOLD.search(text) is None and not may_hold_address(text):
        return []
    words, messages, signs = sorted(_words(text, kept), reverse=True), MessageParser(text), SIGN.finditer(text)
    spans: list[ProtectedSpan] = []
    position = 0
    found = _next_kind(signs, text, 0)
    while position < len(text):
        if found is not None and found.start() < position:
            found = _next_kind(signs, text, position)
        while words and words[-1][0] < position:
            words.pop()
        if words and (found is None or words[-1][0] <= found.start()):
            start, end = words.pop()
            span = ProtectedSpan(start, end, "number" if text[start:end] == NUMBER_SIGN else "word")
        elif found is None:
            break
        else:
            span = _protected(text, found, position, messages)
        spans.append(span)
        position = span.end
    return _joined(_without_empty_pairs(_paired(spans), text), text)


def _next_kind(signs: Iterator[re.Match[str]], text: str, position: int) -> re.Match[str] | None:
    """Returns the next match of `KIND` that begins at one of the signs, at a position or after it. (A search of the whole text
    would let no other thread run.)"""
    matches = (KIND.match(text, sign.start()) for sign in signs if sign.start() >= position)
    return next(filter(None, matches), None)


@lru_cache(maxsize=64)
def kept_pattern(kept: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern that finds the terms as whole words, longer ones first."""
    return re.compile(_alternatives(sorted({term.strip() for term in kept} - {""})) or "(?!)")


def _alternatives(terms: Sequence[str], before: str = "") -> str:
    """Returns a pattern of sorted terms, from which the letters `before`, with which all of them begin, are removed. Equal
    beginnings are read once, so the time of a search does not grow with the number of terms."""
    parts = []
    for _, group in groupby(terms, key=lambda term: term[0]):
        same = list(group)
        size = next((i for i, (a, b) in enumerate(zip(same[0], same[-1], strict=False)) if a != b), len(same[0]))
        common, rests = same[0][:size], [term[size:] for term in same if len(term) > size]
        whole = before + common
        end = r"(?!\w)" if whole[-1].isalnum() or whole == NUMBER_SIGN else ""
        ends = [f"(?:{_alternatives(rests, whole)})"] * bool(rests) + [end] * (common in same)
        start = r"(?<!\w)" if not before and common[0].isalnum() else ""
        parts.append(f"{start}{re.escape(common)}(?:{'|'.join(ends)})")
    return "|".join(parts)


def _words(text: str, kept: tuple[str, ...]) -> list[Span]:
    """Returns the words of `kept`, the addresses and the paths of a text. Words of `kept` may overlap."""
    found: list[Span] = []
    if kept:
        words, letters = kept_pattern(kept), "|".join(map(re.escape, {term.strip()[:1] for term in kept} - {""}))
        matches = [words.match(text, letter.start()) for letter in re.finditer(letters or "(?!)", text)]
        found = [match.span() for match in matches if match]
    if may_hold_address(text):
        for match in ADDRESS.finditer(text):
            end = match.start() + len(match[0].rstrip(CLOSING))
            found.append((match.start(), _balanced(text, match.start(), end)))
    if "/" in text or "\\" in text:
        found += [match.span() for match in PATH.finditer(text)]
    return [span for span in found if span[0] < span[1]]


def _balanced(text: str, start: int, end: int) -> int:
    """Returns the end of an address, before a bracket that was opened before the address: `[text](address)`."""
    close = text.find(")", start, end)
    return end if close < 0 or text.find("(", start, close) >= 0 else close


def _protected(text: str, found: re.Match[str], done: int, messages: MessageParser) -> ProtectedSpan:
    """Returns the span of a match of `KIND`, which begins at `done` or later."""
    start, end = found.span()
    kind = found.lastgroup if found.lastgroup in ROLES else next(name for name in ROLES if found[name] is not None)
    if kind == "braces" and (message := messages.parse(start)):
        return ProtectedSpan(start, message.end, "icu")
    if kind == "backslash":  # the word around it
        while start > done and not text[start - 1].isspace():
            start -= 1
        end += len(_RUN.match(text, end)[0].rstrip(CLOSING))  # type: ignore[index]
        end += text.startswith("}", end) and text.count("{", start, end) > text.count("}", start, end)
    name = {"link": "[", "link_target": "[", "strong": found[0]}.get(str(kind), "")
    return ProtectedSpan(start, end, ROLES[str(kind)], name or next(filter(None, found.group(*_NAMES)), "").lower())


def _paired(spans: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Returns the spans with a partner for every "open" and "close". Those without one become words or points:
    `<your name>` is a word, `<b>` and `**` are points."""
    partners = partners_of(spans)
    result: list[ProtectedSpan] = []
    for i, span in enumerate(spans):
        role = span.role
        if i in partners:
            role = "open" if partners[i] > i else "close"
        elif role in ("open", "close"):
            is_word = role == "open" and span.name.isidentifier() and span.name not in INLINE_TAGS
            role = "word" if is_word else "point"
        result.append(span if role == span.role else span._replace(role=role))
    return result


def partners_of(spans: Sequence[ProtectedSpan]) -> dict[int, int]:
    """Returns for each span that opens or closes another the number of the other. An opening and a closing `**` are
    equal."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for number, span in enumerate(spans):
        closes = span.role == "close" or span.name in ("**", "~~")
        if span.role in ("open", "close") and closes and names[span.name]:
            while names[span.name]:
                partner = opened.pop()
                names[spans[partner].name] -= 1
                if spans[partner].name == span.name:
                    break
            partners[partner], partners[number] = number, partner
        elif span.role == "open":
            opened.append(number)
            names[span.name] += 1
    return partners


def _without_empty_pairs(spans: Sequence[ProtectedSpan], text: str) -> list[ProtectedSpan]:
    """Returns the spans, and one word in place of a pair that surrounds protected words and no others:
    `<1>{{count}}</1>`."""
    partners = partners_of(spans)
    letters = [
        0,
        *accumulate([_LETTER.search(text, left.end, right.start) is not None for left, right in pairwise(spans)]),
    ]
    words = [0, *accumulate([span.role in ("word", "number") for span in spans])]
    others = [0, *accumulate([span.role in ("break", "icu") for span in spans])]
    result: list[ProtectedSpan] = []
    i = 0
    while i < len(spans):
        last = partners.get(i, i)
        if last > i and letters[i] == letters[last] and words[i] < words[last] and others[i] == others[last]:
            result.append(ProtectedSpan(spans[i].start, spans[last].end, "word"))
            i = last
        else:
            result.append(spans[i])
        i += 1
    return result


def _joined(spans: Sequence[ProtectedSpan], text: str) -> list[ProtectedSpan]:
    """Returns the spans with words joined that have no space, letter, bracket or quote between them."""
    result: list[ProtectedSpan] = []
    for span in spans:
        last = result[-1] if result else None
        if (
            last is not None
            and {last.role, span.role} <= {"word", "number"}
            and _GLUE.fullmatch(text, last.end, span.start)
        ):
            result[-1] = last._replace(end=span.end)
        else:
            result.append(span)
    return result
