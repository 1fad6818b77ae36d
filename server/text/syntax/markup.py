"""Splits HTML and XML into tokens (WHATWG HTML, 13.2.5; XML 1.0, fifth edition), and scans tags,
comments and character references in plain text.

The name of a tag may be a number (`<1>...</1>`), and have a value (`<color=#ff0000>`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from server.text.syntax.match import Match, Source, by_pattern
from server.text.tagged import INLINE, PICTURES

ATOMS = frozenset("code kbd samp var math ruby".split()) | PICTURES - {"img"}
"""Elements within a sentence that are one code with their content."""
POINTS = frozenset({"img", "wbr", ""})
"""Markup within a sentence without an end tag; "" is that of comments and declarations."""
NO_TRANSLATE = re.compile(
    r"\s(?:[\w.-]+:)?translat(?:e\s*=\s*[\"']?no|able\s*=\s*[\"']false)\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)
"""Attributes of HTML, ITS and Android."""
BREAKS = frozenset({"br", "lb", "tab", "line-break", "newline"})
REFERENCES = re.compile(r"(&#\d+;?|&#[xX][0-9a-fA-F]+;?|&\w+;?)")
OPAQUE = frozenset("script style textarea noscript iframe pre".split())
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())

NAME = re.compile(r"<(/?)([a-zA-Z][^\s/>]*|\d+(?=\s*/?>))(>?)")
XML_TAG = re.compile(r"<(/?)([^\W\d][\w:.-]*)(?:[^<>\"']|\"[^<\"]*\"|'[^<']*')*?(>)")
SECTIONS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))
"""Starts and ends of comments, and in XML of CDATA sections and processing instructions."""
DOCTYPE = "<!DOCTYPE"
_HIDDEN = r"\"[^\"]*\"|'[^']*'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?)"
DECLARATION = re.compile(
    rf"{DOCTYPE}(?:{_HIDDEN}|\[(?:{_HIDDEN}|[^\]\"'<])*+\]|[^\[>\"'<])*+>", re.DOTALL
)
"""A document type declaration. Its quotes and inner subset may contain ">"."""
QUOTE_OR_END = re.compile(r"[\"'>]|\{[{%]|<%")
CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}", "<%": "%>", "<?": "?>"}
"""Ends of the expressions of templates, which may contain ">"."""
BROKEN_TAGS = 100
"""Tags with unbalanced quotes after which quotes are ignored."""


class Tag(NamedTuple):
    """One piece of markup as written. `name` is in lower case, "" for comments and declarations. A
    piece with an `equiv` is a word."""

    raw: str
    name: str = ""
    closing: bool = False
    equiv: str = ""

    @property
    def opens(self) -> bool:
        """Whether an end tag belongs to this tag."""
        return (
            bool(self.name)
            and not self.closing
            and self.name not in VOID
            and not self.raw.endswith("/>")
        )


def markup_tokens(text: str, xml: bool = False) -> Iterator[str | Tag]:
    """Yields text and markup, which joined are the input, in linear time. In XML, names are as written,
    and markup without an end or with a "<" within it is text."""
    position, broken = 0, 0
    missing: set[str] = set()
    while (start := text.find("<", position)) >= 0:
        name = slash = ""
        if found := (XML_TAG if xml else NAME).match(text, start):
            slash, name, last = found.groups()
            name, end = name if xml else name.lower(), found.end() if last else -1
            if not last and broken < BROKEN_TAGS:
                end = _tag_end(text, found.end())
            if end < 0:
                broken += 1
                end = text.find(">", start) + 1 or -1
        else:
            end = _section_end(text, start, xml, missing)
        if end == 0:  # a "<" that begins no markup is text, up to the next "<"
            end = text.find("<", start + 1)
            yield text[position : end if end >= 0 else len(text)]
            if end < 0:
                return
            position = end
            continue
        if end < 0:
            break
        if start > position:
            yield text[position:start]
        yield Tag(text[start:end], name, bool(slash))
        position = end
        if name in OPAQUE and not slash and not xml:
            # Only its own end tag ends a script.
            close = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, position)
            if content := text[position : close.start() if close else len(text)]:
                yield Tag(content)
            position += len(content)
    if position < len(text):
        yield text[position:]


def _section_end(text: str, start: int, xml: bool, missing: set[str]) -> int:
    """Returns the end of the comment, declaration, instruction or section at a "<", 0 if none begins
    there, -1 without an end. `missing` collects those of XML without an end."""
    for opening, closing in SECTIONS if xml else SECTIONS[:1]:
        if text.startswith(opening, start) and opening not in missing:
            if (end := text.find(closing, start + len(opening))) >= 0 or not xml:
                return end + len(closing) if end >= 0 else len(text)
            missing.add(opening)
    if not xml:
        return (text.find(">", start) + 1 or -1) if text.startswith(("<!", "<?"), start) else 0
    if not text.startswith(DOCTYPE, start) or DOCTYPE in missing:
        return 0
    declaration = DECLARATION.match(text, start)
    missing.update(() if declaration else (DOCTYPE,))
    return declaration.end() if declaration else 0


def _tag_end(text: str, position: int) -> int:
    """Returns the position after the first ">" outside quotes, or -1. The attributes of the tag
    begin at `position`."""
    while found := QUOTE_OR_END.search(text, position):
        if found[0] == ">":
            return found.end()
        end = CLOSING.get(found[0], found[0])
        if (close := text.find(end, found.end())) < 0:
            return -1
        position = close + len(end)
    return -1


KEPT = ATOMS | OPAQUE | {"keep", "xliff:g", "ph"}
BLOCK = frozenset(
    "p div li ul ol dl dt dd table thead tbody tfoot tr td th h1 h2 h3 h4 h5 h6 blockquote section "
    "article para listitem "
    "entry row details summary figure figcaption header footer nav aside main caption legend "
    "fieldset option".split()
)
FLAGS = frozenset(
    "async autofocus autoplay checked controls defer disabled open readonly required selected".split()
)
"""Attributes without a value. Others make text of a tag: `<your name>`."""
VALUES = re.compile(r"\"[^\"]*\"|'[^']*'|\{[{%].*?[}%]\}|\{[^{}]*\}")
TEXT_TAG = re.compile(r"<(/?)(\w[^\s/>]*)(>?)")
TAG_NAME = re.compile(r"\w[\w:.-]*(?:=[^\s<>\"']+)?")
LONGEST_TAG = 2000
NEW_SENTENCE = re.compile(r"[A-ZÀ-Þ][a-zà-ÿ]")
section = by_pattern(r"<!\[CDATA\[|\]\]>", "section", "break")
_BESIDE = re.compile(r"</([^\W\d][\w.:-]*)><\1[\s>]")
_ESCAPED_TAG = re.compile(r"&lt;(/?)([a-z]\w*)\b(?:(?!&[lg]t;).){0,300}&gt;", re.IGNORECASE)


def reference(source: Source, at: int) -> Match | None:
    """Returns the character reference at a "&", or the escaped tag (&lt;b&gt;). A reference to an
    apostrophe is text."""
    if found := _ESCAPED_TAG.match(source.text, at):
        return Match(at, found.end(), "close" if found[1] else "open", "tag", found[2].lower())
    found = REFERENCES.match(source.text, at)
    is_code = found and found[0].endswith(";") and unescape(found[0]) not in "'’"
    return Match(at, found.end(), "point", "reference") if found and is_code else None


def tag(source: Source, at: int) -> Match | None:
    """Returns the tag or comment at a "<", or the whole element if it is not translated."""
    text = source.text
    if text.startswith("<!--", at):
        end = source.find("-->", at + 4)
        return Match(at, end + 3, "point", "comment") if end >= 0 else None
    window = text[at : at + LONGEST_TAG] if source.find(">", at) >= 0 else ""
    found = TEXT_TAG.match(window)
    end = -1 if not found else found.end() if found[3] else _tag_end(window, found.end())
    if not found or end < 0 or not _is_tag(found, window[:end]):
        return None
    end += at
    name = re.split("[=.]", found[2])[0].lower()
    splits = name in BLOCK or name in ("br", "hr") or name in source.computed(_texts)
    if found[1]:
        return Match(at, end, "break" if splits else "close", "tag", name)
    is_empty = name not in INLINE and text.startswith(f"</{found[2]}>", end)
    if name in KEPT or is_empty or NO_TRANSLATE.search(text, at, end):
        close = source.find(f"</{found[2]}", end)
        last = text.find(">", close, at + LONGEST_TAG) if close >= 0 else -1
        if last >= 0:
            return Match(at, last + 1, "word", "element")
    if splits:
        return Match(at, end, "break", "tag")
    is_void = name in VOID and source.find(f"</{found[2]}", end) < 0
    if is_void or text[end - 2] == "/":
        splits = not is_void and NEW_SENTENCE.match(text, end) is not None
        return Match(at, end, "break" if splits else "point" if is_void else "word", "empty tag")
    return Match(at, end, "open", "tag", name)


def _texts(text: str) -> set[str]:
    """Returns the names of elements that follow each other (`</item><item>`), so separate texts."""
    return {*_BESIDE.findall(text.lower())} - INLINE


def _is_tag(found: re.Match[str], raw: str) -> bool:
    """Returns whether a match is a tag, and not a comparison or a placeholder: `a<b and c>d`, `<your
    name>`."""
    attributes = VALUES.sub("", raw[found.end(2) : -1].rstrip("/"))
    parts = re.sub(r"\s*=\s*", "=", attributes).split()
    is_tag = (
        TAG_NAME.fullmatch(found[2]) is not None
        and "<" not in attributes
        and not (found[1] and parts)
    )
    is_cue = found[2].partition(".")[0] == "v"  # a span of WebVTT with an annotation: <v Anna>
    return is_tag and all(
        is_cue or part in FLAGS or part[0] in "#@*:[({" or "=" in part[1:] for part in parts
    )
