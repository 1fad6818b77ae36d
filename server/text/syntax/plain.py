"""Scans plain text: the table of scanners, and the order in which they are tried."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter, itemgetter

import regex

from server.kept import kept
from server.text.syntax import addresses, lightweight, lines, markup, placeholders
from server.text.syntax.match import Codes, Match, Raw, Scanner, Source
from server.text.tagged import Code, Tagged

_SCANNERS: dict[str, tuple[Scanner, ...]] = {
    "<": (
        placeholders.template,
        markup.section,
        addresses.expression,
        markup.tag,
        lightweight.autolink,
        addresses.emoticon,
    ),
    "&": (markup.reference,),
    "{": (
        placeholders.template,
        placeholders.message,
        placeholders.braces,
        placeholders.message_head,
    ),
    "'": (
        placeholders.apostrophe,
        placeholders.quoted,
        lightweight.quote_end,
        lightweight.emphasis,
    ),
    "%": (placeholders.sign_before_braces, placeholders.specification),
    "$": (lightweight.math, placeholders.dollar, placeholders.parameter),
    "#": (placeholders.sign_before_braces, addresses.hashtag, lightweight.role_end),
    "`": (lightweight.fence, lightweight.code_span, lightweight.quote),
    "*": (
        placeholders.sign_before_braces,
        lightweight.merge_tag,
        lightweight.strong,
        lightweight.emphasis,
    ),
    "~": (
        lightweight.tie,
        placeholders.sign_before_braces,
        lightweight.fence,
        lightweight.strong,
        addresses.unix_path,
    ),
    "!": (lightweight.link, placeholders.sign_before_braces),
    "[": (
        lightweight.org_link,
        lightweight.role,
        lightweight.list_item,
        addresses.note,
        addresses.expression,
        lightweight.link,
        lightweight.wiki_link,
        placeholders.field,
        lightweight.bbcode,
    ),
    "]": (markup.section, lightweight.link, lightweight.org_link_end),
    "\\": (
        placeholders.apostrophe,
        placeholders.line_end,
        lightweight.display,
        lightweight.text_command,
        lightweight.command,
        placeholders.escape,
        placeholders.quote,
        placeholders.backslash,
    ),
    "/": (addresses.note, addresses.file_path, addresses.unix_path),
    "@": (placeholders.sign_before_braces, addresses.email, addresses.handle),
    ":": (addresses.uri, addresses.emoticon, placeholders.colon_name),
    ";": (addresses.emoticon,),
    "=": (addresses.emoticon,),
    "_": (placeholders.underscores, lightweight.emphasis),
    ".": (addresses.www, addresses.named_file, addresses.unix_path, addresses.numbered),
    "-": (addresses.option, addresses.numbered),
    "–": (addresses.numbered,),
    "(": (addresses.expression,),
    "}": (lightweight.text_command_end,),
    '"': (placeholders.line_end,),
    ">": (lightweight.separator,),
    "\x1b": (placeholders.control,),
    **dict.fromkeys("|¦«‹›»·•", (lightweight.separator,)),
    **dict.fromkeys(placeholders.BIDI, (placeholders.direction,)),
    **dict.fromkeys(addresses.RAISED_DIGITS, (addresses.note,)),
}
"""The scanners of each sign, in the order in which they are tried."""
_ICON = (lightweight.icon,)
_RARE = rf"%{{}}$<&`\\#\[*~/@\"\x1b|¦«‹›»·•{lightweight.ICONS}{placeholders.BIDI}=_>\]{addresses.RAISED_DIGITS}"
_SIGN = re.compile(
    rf"[{_RARE}:;'.!–\-(](?:(?<=[{_RARE}])|(?<=:)(?=[^\s\d])|(?<=;)(?=['^-]?[()\[\]DPpOo|/*@$])|(?<=\w\()"
    r"|(?<=')(?=['{}#|])|(?<=\w')(?!\w)|(?<=!)(?=[\[{])"
    r"|(?<=\.)(?:(?<=[wW]{3}\.)|(?=\.?/|[a-z][a-z\d]{1,3}[\"”“»])"
    r"|(?<=[Nn]o\.|os\.|rt\.|ts\.|úm\.)(?=[ \u00a0]?\d)|(?<=[Nn]\.)(?=[ºª°]))"
    r"|(?<=[\"'“„«‘(\[]-)(?=-[a-zA-Z])|(?<=\d,[-–])(?!\w))"
)
NUMBER_SIGN = "#"


def codes(text: str) -> tuple[Code, ...]:
    """Returns the codes of a text: the parts that every translation keeps."""
    return scan(Tagged(text)).codes


def scan(tagged: Tagged, kept: tuple[str, ...] = (), raw: Raw | None = None) -> Tagged:
    """Returns a text with its own codes, those of plain text, and the words of `kept`. `raw` returns a
    part of the text as written in its document."""
    text = tagged.text
    if not kept and not _SIGN.search(text) and not any(lines.matches(text)):
        return tagged
    found = [
        part
        for span in _parts(tagged)
        for match in lex(text, kept, *span)
        for part in _opened(tagged, match, kept)
    ]
    if not found:
        return tagged
    made = Codes(tagged, raw)
    made.add(found)
    made.pair()
    return Tagged(text, tuple(made.words()), tagged.escape)


def _opened(tagged: Tagged, message: Match, kept: tuple[str, ...]) -> Iterator[Match]:
    """Yields a match. A message whose arms contain codes becomes the codes of its arms and breaks
    between these."""
    start_of = attrgetter("start")
    codes = tagged.codes
    first = bisect_right(codes, message.start, key=start_of)
    last = bisect_left(codes, message.end, lo=first, key=start_of)
    arms = [
        codes[bisect_left(codes, start, key=start_of) : bisect_right(codes, end, key=start_of)]
        for start, end in message.flows
    ]
    sides = [Counter([code.pair for code in arm if code.pair]) for arm in arms]
    if (
        first == last
        or sum(map(len, arms)) < last - first
        or any(1 in counts.values() for counts in sides)
    ):
        yield message
        return
    done = message.start
    for start, end in message.flows:
        yield Match(done, start, "break", "message")
        for match in lex(tagged.text, (*kept, NUMBER_SIGN), start, end):
            yield from _opened(tagged, match, kept)
        done = end
    yield Match(done, message.end, "break", "message")


def lex(
    text: str, kept: tuple[str, ...] = (), start: int = 0, end: int | None = None
) -> Iterator[Match]:
    """Yields the matches in a part of a text, and the words of `kept`, without overlaps: the leftmost
    ones, and at one sign that of the first scanner."""
    part = text[start:end] if start or end is not None else text
    source = Source(part)
    found: list[tuple[int, Match | None]] = [
        (word.start, word) for word in (*_kept(part, kept), *lines.matches(part))
    ]
    found += [(sign.start(), None) for sign in _SIGN.finditer(part)]
    for at, word in sorted(found, key=itemgetter(0)):
        match = word
        if word is None and at >= source.done:
            for scanner in _SCANNERS.get(part[at], _ICON):
                if match := scanner(source, at):
                    break
        if match is not None and match.start >= source.done:
            source.done = match.end
            yield _moved(match, start)


def _moved(match: Match, by: int) -> Match:
    if not by:
        return match
    flows = tuple([(start + by, end + by) for start, end in match.flows])
    return match._replace(start=match.start + by, end=match.end + by, flows=flows)


def _kept(text: str, kept: tuple[str, ...]) -> Iterator[Match]:
    for found in kept_pattern(kept).finditer(text, overlapped=True) if kept else ():
        is_number = found[0] == NUMBER_SIGN
        if not is_number or not text[found.end() : found.end() + 1].isalnum():
            yield Match(*found.span(), "number" if is_number else "word", "kept")


@kept(64)
def kept_pattern(kept: tuple[str, ...]) -> regex.Pattern[str]:
    """Returns a pattern that matches the terms as whole words, longer ones first."""
    terms = {term.strip() for term in kept} - {""}
    pattern = r"(?:(?<!\w)|(?!\w))\L<terms>(?:(?!\w)|(?<!\w))" if terms else "(?!)"
    return regex.compile(pattern, ignore_unused=True, cache_pattern=False, terms=terms)


def _parts(tagged: Tagged) -> list[tuple[int, int | None]]:
    parts: list[tuple[int, int | None]] = []
    start = 0
    for code in tagged.codes:
        if code.splits or code.end > code.start:
            if code.start > start:
                parts.append((start, code.start))
            start = code.end
    parts.append((start, None))
    return parts
