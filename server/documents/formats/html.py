"""Reads web pages (.html) with the attributes that people read."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from server.documents.document import Document, has_words, join_pieces
from server.documents.formats.plain import HEAD_BYTES, decode
from server.documents.formats.xml.parsing import valid_text
from server.errors import InvalidRequest
from server.text.spans import edited
from server.text.syntax.html import Builder, parse, pieces
from server.text.syntax.markup import NO_TRANSLATE, Tag, markup_tokens
from server.text.tagged import escaped

CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:\-]{2,40})[^>]{0,200}>"
    rb"|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:\-]{2,40})[^>]{0,200}>",
    re.I,
)
"""Declarations of a page's encoding. A tag without an end is text, and declares nothing."""
ROOT = re.compile(r"<html\b[^>]{0,1000}>", re.IGNORECASE)
LANGUAGE = re.compile(r"(\s(?:xml:)?lang\s*=\s*[\"'])[\w\-]{1,40}", re.IGNORECASE)
VALUE = re.compile(r"""(\s)([a-zA-Z:_-]+)(\s*=\s*)(["'])((?:(?!\4).)*)\4""", re.DOTALL)
LABELS = frozenset("alt title placeholder aria-label label summary description caption".split())
"""Attributes that people read."""
NO_BREAK = 0xA0
BUTTON = re.compile(r"\stype\s*=\s*[\"']?(?:submit|reset|button)\b", re.IGNORECASE)
META = re.compile(
    r"\s(?:name|property)\s*=\s*[\"']?(?:description|keywords|author-note|og:title|og:description|og:image:alt|"
    r"twitter:title|twitter:description)\b",
    re.IGNORECASE,
)


def read(data: bytes, target: str) -> Document:
    """Reads HTML or XHTML in its declared encoding, and sets its language to `target`. Characters
    outside the encoding become references."""
    match = CHARSET.search(data[:HEAD_BYTES])
    text, encode = decode(data, (match[1] or match[2]).decode() if match else "utf-8", markup=True)
    tokens = list(markup_tokens(text))
    for token in tokens[:50]:
        if isinstance(token, Tag) and token.raw[:9].lower() == "<!doctype" and "[" in token.raw:
            raise InvalidRequest("The page defines entities of its own; remove its document type.")
    written = Builder(read=lambda raw: iter([(raw, raw)])).build(tokens).tagged("")
    parts = join_pieces([passage.write() for passage in written.passages()])
    values = list(dict.fromkeys(value[5] for token in tokens for value in labels(token)))
    texts = [escaped(html.unescape(value)) for value in values]

    def write(translations: Sequence[str]) -> bytes:
        translated = zip(values, texts, translations[len(parts) :], strict=True)
        made = {value: parse(new).text for value, text, new in translated if new != text}
        page = "".join(
            spelled_as(part, new, made) for part, new in zip(parts, translations, strict=False)
        )
        return encode(
            ROOT.sub(lambda root: LANGUAGE.sub(rf"\g<1>{target}", root[0]), page, count=1)
        )

    return Document((*parts, *texts), "html", write)


def spellings(texts: Iterable[str]) -> dict[int, str]:
    """Returns the references of characters that these texts of a page never write literally."""
    parts = [part for text in texts for part in pieces(text)]
    literal = set("<>&").union(*(text for text, raw in parts if text == raw))
    spelled = {
        ord(text): raw
        for text, raw in parts
        if raw[:1] == "&" and len(text) == 1 and text not in literal
    }
    return {NO_BREAK: "\xa0" if "\xa0" in literal else "&nbsp;"} | spelled


def spelled_as(source: str, new: str, values: Mapping[str, str]) -> str:
    """Returns a translation of HTML with the references of its source, and with these values of
    attributes replaced."""
    signs: dict[int, str] = {}
    if new != source:
        signs = spellings(token for token in markup_tokens(source) if isinstance(token, str))
    parts: list[str] = []
    for token in markup_tokens(new):
        if isinstance(token, str):
            parts.append(token.replace("&nbsp;", "\xa0").translate(signs) if signs else token)
            continue
        edits = [
            (*value.span(5), attribute(values[value[5]], value[5], value[4]))
            for value in (labels(token) if values else ())
            if value[5] in values
        ]
        parts.append(edited(token.raw, edits)[0])
    return "".join(parts)


def attribute(text: str, source: str, quote: str) -> str:
    """Returns a text as the value of an attribute in quotes, with the references of its source."""
    written = html.escape(valid_text(text), quote=False).translate(spellings((source,)))
    return written.replace(quote, html.escape(quote))


def labels(tag: str | Tag) -> Iterator[re.Match[str]]:
    """Yields the attributes of a tag that people read."""
    if isinstance(tag, str) or not tag.name or tag.closing or NO_TRANSLATE.search(tag.raw):
        return
    button = tag.name == "input" and BUTTON.search(tag.raw)
    meta = tag.name == "meta" and META.search(tag.raw)
    for value in VALUE.finditer(tag.raw):
        name = value[2].lower()
        read = name in LABELS or (button and name == "value") or (meta and name == "content")
        if read and has_words(html.unescape(value[5])):
            yield value
