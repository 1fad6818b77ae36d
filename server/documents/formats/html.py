"""Reads web pages (.html). Attributes that people read are translated too: alternative texts, titles, placeholders, labels of
buttons, descriptions."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from server.documents.document import Document, has_words, join_pieces
from server.documents.formats.plain import HEAD_BYTES, decode
from server.documents.formats.xml.parsing import INVALID_CHARACTERS
from server.errors import InvalidRequest
from server.text.offsets import edited
from server.text.syntax.html import parse, pieces, written_passages
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
VALUE = re.compile(r"""(\s)([a-zA-Z:_-]+)(\s*=\s*)(["'])((?:(?!\4).)*)\4""", re.DOTALL)
LABELS = frozenset(("alt", "title", "placeholder", "aria-label", "label"))
"""Attributes that people read, of any element."""
NO_BREAK = 0xA0
HEAD_TOKENS = 50
BUTTON = re.compile(r"\stype\s*=\s*[\"']?(?:submit|reset|button)\b", re.IGNORECASE)
META = re.compile(
    r"\s(?:name|property)\s*=\s*[\"']?(?:description|keywords|author-note|og:title|og:description|og:image:alt|"
    r"twitter:title|twitter:description)\b",
    re.IGNORECASE,
)


def read(data: bytes, target: str) -> Document:
    """Reads HTML or XHTML in the encoding that it declares, and sets its language to `target`. Characters outside the
    encoding are written as references."""
    match = CHARSET.search(data[:HEAD_BYTES])
    text, encode = decode(data, (match[1] or match[2]).decode() if match else "utf-8")
    tokens = list(markup_tokens(text))
    for token in tokens[:HEAD_TOKENS]:
        if isinstance(token, Tag) and token.raw[:9].lower() == "<!doctype" and "[" in token.raw:
            raise InvalidRequest("The page defines entities of its own; remove its document type.")
    spelled = references(token for token in tokens if isinstance(token, str))
    parts = join_pieces(written_passages(text))
    values = list(dict.fromkeys(value[5] for token in tokens for value in labels(token)))
    texts = [escaped(html.unescape(value)) for value in values]

    def write(translations: Sequence[str]) -> bytes:
        made = {
            value: html.escape(INVALID_CHARACTERS.sub("", parse(new).text), quote=False).translate(references((value,)))
            for value, text, new in zip(values, texts, translations[len(parts) :], strict=True)
            if new != text
        }
        page = ""
        for part, new in zip(parts, translations, strict=False):
            signs = spelled if part != new else {}  # a part without a change is written as it was
            page += "".join(respelled(token, signs, made) for token in markup_tokens(new))
        return with_language(encode(page), target)

    return Document((*parts, *texts), "html", write)


def references(texts: Iterable[str]) -> dict[int, str]:
    """Returns how the characters are written that these texts of a page only have as references."""
    parts = [part for text in texts for part in pieces(text)]
    literal = set("<>&").union(*(text for text, raw in parts if text == raw))
    spelled = {ord(text): raw for text, raw in parts if raw[:1] == "&" and len(text) == 1 and text not in literal}
    return {NO_BREAK: "\xa0" if "\xa0" in literal else "&nbsp;"} | spelled


def respelled(token: str | Tag, spelled: Mapping[int, str], values: Mapping[str, str]) -> str:
    """Returns markup with other values of attributes, and text with its references as its page has them."""
    if isinstance(token, str):
        return token.replace("&nbsp;", "\xa0").translate(spelled) if spelled else token
    edits = [
        (*value.span(5), values[value[5]].replace(value[4], html.escape(value[4])))
        for value in labels(token)
        if value[5] in values
    ]
    return edited(token.raw, edits)[0]


def with_language(data: bytes, target: str) -> bytes:
    """Returns the page with the language attributes of its root element set to `target`, if it has any."""
    root = ROOT.search(data[:HEAD_BYTES])
    if root is None:
        return data
    changed = LANGUAGE.sub(lambda match: match[1] + target.encode(), root[0])
    return data[: root.start()] + changed + data[root.end() :]


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
