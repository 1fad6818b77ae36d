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
from server.documents.formats.xml.parsing import INVALID_CHARACTERS
from server.errors import InvalidRequest
from server.text.syntax.html import parse, written_passages
from server.text.syntax.markup import NO_TRANSLATE, Tag, markup_tokens
from server.text.tagged import escaped

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


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute that people read: as text of HTML, as it is written, and the quotes around it."""

    text: str
    raw: str
    quote: str

    def written(self, translated: str) -> str:
        """Returns a translation as the value of this attribute; one that changes nothing is the value as it was."""
        if translated == self.text:
            return self.raw
        value = html.escape(INVALID_CHARACTERS.sub("", parse(translated).text), quote=False)
        return value.replace(self.quote, html.escape(self.quote))


def read(data: bytes, target: str) -> Document:
    """Reads HTML or XHTML in the encoding that it declares, and sets its language to `target`. Characters outside the
    encoding are written as references."""
    match = CHARSET.search(data[:HEAD_BYTES])
    text, encode = decode(data, (match[1] or match[2]).decode() if match else "utf-8")
    if has_internal_subset(text):
        raise InvalidRequest("The page defines entities of its own; remove its document type.")
    mark = "m" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24] + "x"  # does not occur in the page
    attributes: list[Attribute] = []
    marked_page = "".join(marked(token, mark, attributes) for token in markup_tokens(text))
    pieces = join_pieces(written_passages(marked_page))

    def write(translations: Sequence[str]) -> bytes:
        made_values = zip(attributes, translations[len(pieces) :], strict=True)
        values = [attribute.written(translated) for attribute, translated in made_values]
        made = re.sub(
            rf"{mark}(\d+)x",
            lambda match: values[int(match[1])] if int(match[1]) < len(values) else "",
            "".join(translations[: len(pieces)]),
        )
        return with_language(encode(made), target)

    return Document((*pieces, *[attribute.text for attribute in attributes]), "html", write)


def has_internal_subset(text: str) -> bool:
    """Returns whether a page's document type contains declarations, which would otherwise be read as text."""
    tags = (token for token in markup_tokens(text) if not isinstance(token, str))
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


def marked(token: str | Tag, mark: str, attributes: list[Attribute]) -> str:
    """Returns text, or a tag with marks for its attributes with words, which are added to `attributes`."""
    if isinstance(token, str):
        return token
    if not token.name or token.closing or NO_TRANSLATE.search(token.raw):
        return token.raw
    button = token.name == "input" and BUTTON.search(token.raw)
    meta = token.name == "meta" and META.search(token.raw)

    def replaced(match: re.Match[str]) -> str:
        name, value = match[2].lower(), html.unescape(match[4][1:-1])
        read = name in LABELS or (button and name == "value") or (meta and name == "content")
        if not read or not has_words(value):
            return match[0]
        quote = match[4][0]
        attributes.append(Attribute(escaped(value), match[4][1:-1], quote))
        return f"{match[1]}{match[2]}{match[3]}{quote}{mark}{len(attributes) - 1}x{quote}"

    return VALUE.sub(replaced, token.raw)
