"""The texts in the attributes of a page: alternative texts, titles, placeholders, labels of buttons, descriptions."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from server.documents.document import has_words
from server.documents.xml_inline import plain
from server.text.html_passages import NO_TRANSLATE, escape
from server.text.html_scanner import Tag, scan_markup

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
class Attributes:
    """A page whose attributes with words are replaced by marks. `texts` are their values as HTML."""

    page: str
    texts: tuple[str, ...]
    mark: str

    def restore(self, page: str, translations: Sequence[str]) -> str:
        """Returns a page with its marks replaced by translations of the texts."""
        values = [html.escape(plain(text)) for text in translations]
        return re.sub(
            rf"{self.mark}(\d+)x", lambda found: values[int(found[1])] if int(found[1]) < len(values) else "", page
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

    def replaced(found: re.Match[str]) -> str:
        name, value = found[2].lower(), html.unescape(found[4][1:-1])
        read = name in LABELS or (button and name == "value") or (meta and name == "content")
        if not read or not has_words(value):
            return found[0]
        texts.append(escape(value))
        return f'{found[1]}{found[2]}{found[3]}"{mark}{len(texts) - 1}x"'

    return VALUE.sub(replaced, tag.raw)
