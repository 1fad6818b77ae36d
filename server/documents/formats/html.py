"""Reads web pages (.html). Attributes that people read are translated too: alternative texts, titles, placeholders, labels of
buttons, descriptions."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from server.documents.document import Document, has_words, join_pieces
from server.documents.formats.plain import HEAD_BYTES, decode
from server.documents.formats.xml_inline import plain
from server.errors import InvalidRequest
from server.text.markup.passages import NO_TRANSLATE, escape, parse_passages
from server.text.markup.scan import Tag, scan_markup

CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:\-]{2,40})[^>]{0,200}>"
    rb"|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:\-]{2,40})[^>]{0,200}>",
    re.I,
)
"""Declarations of a page's encoding. A tag without an end is excluded: it is text, and after translation it would no
longer declare the encoding."""
ROOT = re.compile(rb"<html\b[^>]{0,1000}>", re.IGNORECASE)
LANGUAGE = re.compile(rb"(\s(?:xml:)?lang\s*=\s*[\"'])[\w\-]{1,40}", re.IGNORECASE)
VALUE = re.compile(r"""(\s)([a-zA-Z:_-]+)(\s*=\s*)("[^"]*"|'[^']*')""")
LABELS = frozenset(("alt", "title", "placeholder", "aria-label", "label"))
"""Attributes that people read, of any element."""
BUTTON = re.compile(r"\stype\s*=\s*[\"']?(?:submit|reset|button)\b", re.IGNORECASE)
META = re.compile(
    r"\s(?:name|property)\s*=\s*[\"']?(?:description|keywords|author-note|og:title|og:description|og:image:alt|"
    r"twitter:title|twitter:description)\b",
    re.IGNORECASE,
)


def read(data: bytes, target: str) -> Document:
    """Reads a web page and sets its language to `target`. Raises InvalidRequest."""
    document = page(data)
    return Document(
        document.texts, document.format, lambda translations: with_language(document.write(translations), target)
    )


def page(data: bytes) -> Document:
    """Reads HTML or XHTML in the encoding that it declares. Characters outside the encoding are written as
    references."""
    match = CHARSET.search(data[:HEAD_BYTES])
    text, encode = decode(data, (match[1] or match[2]).decode() if match else "utf-8")
    if has_internal_subset(text):
        raise InvalidRequest("The page defines entities of its own; remove its document type.")
    attributes = find_attributes(text)
    pieces = join_pieces(passage.render() for passage in parse_passages(attributes.page, "html"))

    def write(translations: Sequence[str]) -> bytes:
        made = "".join(translations[: len(pieces)])
        return encode(attributes.restore(made, translations[len(pieces) :]))

    return Document((*pieces, *attributes.texts), "html", write)


def has_internal_subset(text: str) -> bool:
    """Returns whether a page's document type contains declarations, which would otherwise be read as text."""
    tags = (token for token in scan_markup(text) if not isinstance(token, str))
    for tag in tags:
        if tag.raw[:9].lower() == "<!doctype":
            return "[" in tag.raw
        if tag.opens:
            return False
    return False


def with_language(data: bytes, target: str) -> bytes:
    """Returns the page with the language attributes of its root element set to `target`, if it has any."""
    root = ROOT.search(data[:HEAD_BYTES])
    if root is None:
        return data
    changed = LANGUAGE.sub(lambda match: match[1] + target.encode(), root[0])
    return data[: root.start()] + changed + data[root.end() :]


@dataclass(frozen=True, slots=True)
class Attributes:
    """A page whose attributes with words are replaced by marks. `texts` are their values as HTML."""

    page: str
    texts: tuple[str, ...]
    mark: str

    def restore(self, page: str, translations: Sequence[str]) -> str:
        """Returns a page with its marks replaced by translations of the texts."""
        values = [html.escape(plain(text)) for text in translations]
        return re.sub(
            rf"{self.mark}(\d+)x", lambda match: values[int(match[1])] if int(match[1]) < len(values) else "", page
        )


def find_attributes(page: str) -> Attributes:
    """Returns the page with marks, which do not occur in it, for the attributes to translate."""
    mark = "m" + hashlib.sha256(page.encode("utf-8", "replace")).hexdigest()[:24] + "x"
    texts: list[str] = []
    parts: list[str] = []
    for token in scan_markup(page):
        if isinstance(token, Tag) and token.name and not token.closing and not NO_TRANSLATE.search(token.raw):
            parts.append(marked(token, mark, texts))
        else:
            parts.append(token if isinstance(token, str) else token.raw)
    return Attributes("".join(parts), tuple(texts), mark)


def marked(tag: Tag, mark: str, texts: list[str]) -> str:
    """Returns a tag with marks for its attributes with words, which are added to `texts`."""
    button = tag.name == "input" and BUTTON.search(tag.raw)
    meta = tag.name == "meta" and META.search(tag.raw)

    def replaced(match: re.Match[str]) -> str:
        name, value = match[2].lower(), html.unescape(match[4][1:-1])
        read = name in LABELS or (button and name == "value") or (meta and name == "content")
        if not read or not has_words(value):
            return match[0]
        texts.append(escape(value))
        return f'{match[1]}{match[2]}{match[3]}"{mark}{len(texts) - 1}x"'

    return VALUE.sub(replaced, tag.raw)
