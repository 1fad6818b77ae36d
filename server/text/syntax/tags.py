"""Scans tags, comments and character references in plain text (WHATWG HTML 13.1.2 and 13.1.4; XML 1.0, 3.1).

The names of tags may be numbers (`<1>...</1>`) and may have a value (`<color=#ff0000>`), as in the strings of programs.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from server.text.syntax.match import Match, Source, by_pattern

INLINE = frozenset("a b big del em font i ins mark s small span strike strong sub sup u p div li ul ol".split())
"""Elements that, without their partner, are no word of the sentence."""
_KEPT = frozenset("keep code kbd samp var pre script style xliff:g ph".split())
"""Elements whose content is not translated."""
_FLAGS = (
    "allowfullscreen|async|auto(?:focus|play)|checked|controls|default|defer|disabled|hidden|inert|ismap|loop|multiple|muted|"
    "no(?:module|validate)|open|playsinline|readonly|required|reversed|selected"
)
"""Attributes of HTML that have no value. With others, `<your name>` would be a tag."""
_LONGEST = 2000
_VALUE = r"\"[^\"]*\"|'[^']*'|\{[^{}]{0,200}\}|[^\s\"'<>=`]{1,500}?(?=\s|/?>)"
_ATTRIBUTE = (
    rf"[^\s\"'<>/={{}}]{{1,100}}\s*=\s*(?:{_VALUE})|(?:{_FLAGS})(?=[\s/>])|[#@*:\[(][^\s\"'<>/=]{{1,100}}"
    r"|\{[{%].{0,200}?[}%]\}"
)
_START = re.compile(
    rf"<(\w[\w:.-]{{0,100}})(?:=[^\s<>\"']{{1,200}}?(?=\s*/?>))?(?:(?:\s+|(?<=[%}}]\}}))(?:{_ATTRIBUTE})){{0,50}}+\s*(/?)>",
    re.IGNORECASE,
)
_END_TAG = re.compile(r"</(\w[\w:.-]{0,100})\s*>")
_NO_TRANSLATE = re.compile(r"\s(?:translate\s*=\s*[\"']?no\b|class\s*=\s*[\"'][^\"']*\bnotranslate\b)", re.IGNORECASE)
_NEW_SENTENCE = re.compile(r"[A-ZÀ-Þ][a-zà-ÿ]")
search_reference = by_pattern(
    r"&(?!#39;|apos;|rsquo;|#8217;|#x27;)(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", "point", "reference"
)
search_section = by_pattern(r"<!\[CDATA\[|\]\]>", "break", "section")
search_declaration = by_pattern(r"<!doctype\b[^<>]{0,500}>", "point", "declaration")


def search_tag(source: Source, at: int) -> Match | None:
    """Returns the tag or comment that begins at a "<"."""
    text = source.text
    if text.startswith("<!--", at):
        end = source.find("-->", at + 4)
        return Match(at, end + 3, "point", "comment") if end >= 0 else None
    if close := _END_TAG.match(text, at):
        return Match(at, close.end(), "close", "tag", close[1].lower())
    found = _START.match(text, at)
    if found is None:
        return None
    name, end = found[1].lower(), found.end()
    if found[2] or name in ("br", "hr"):
        splits = name in ("br", "hr") or _NEW_SENTENCE.match(text, end)
        return Match(at, end, "break" if splits else "word", "empty tag")
    if name in _KEPT or _NO_TRANSLATE.search(found[0]):
        last = _end_of(source, name, end)
        if last >= 0:
            return Match(at, last, "word", "element")
    return Match(at, end, "open", "tag", name)


def _end_of(source: Source, name: str, position: int) -> int:
    """Returns the end of the next end tag of an element, or -1."""
    ends = source.computed(_end_tags).get(name, [])
    number = bisect_left(ends, position)
    return ends[number] if number < len(ends) and ends[number] <= position + _LONGEST else -1


def _end_tags(text: str) -> dict[str, list[int]]:
    """Returns the ends of the end tags of each name."""
    ends: dict[str, list[int]] = {}
    for found in _END_TAG.finditer(text):
        ends.setdefault(found[1].lower(), []).append(found.end())
    return ends
