"""Represents XML as HTML for the translator and converts the result back."""

from __future__ import annotations

import html
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.entities import html5
from itertools import pairwise

from server.api.schemas.deepl import DeeplParameters
from server.text.markup.outline import LINE_END, mark_outline
from server.text.markup.scan import OPAQUE, Tag, scan_markup
from server.text.markup.xml import Token, scan_xml

CODE = frozenset({"script", "style"})
"""Elements of XHTML and SVG whose content is not translated."""
NOT_TRANSLATED = re.compile(r"\s(?:[\w.-]+:)?translat(?:e\s*=\s*[\"']no|able\s*=\s*[\"']false)[\"']")
"""Attributes that exclude an element from translation: of XHTML and ITS, and of Android."""
REFERENCE = re.compile(r"(&#?[\w.:-]+;)")
ENTITY = re.compile(r"<!ENTITY\s+([\w.:-]+)")


@dataclass(slots=True)
class Masked:
    """A document with numbered placeholders for its tags; `restore` replaces them with the tags."""

    text: str = ""
    _nonce: str = field(default_factory=lambda: secrets.token_hex(6))
    _originals: list[str] = field(default_factory=list)

    def placeholder(self, opening: str, original: str) -> str:
        """Returns a placeholder that begins with `opening`, such as "<span", and stores the original under its
        number."""
        self._originals.append(original)
        return f"{opening} {self._nonce}-{len(self._originals) - 1}>"

    def restore(self, translated: str, xml: bool) -> str:
        """Returns the translated document with the original tags. In XML, `&nbsp;` becomes U+00A0, because XML does not
        define it, and the text of a CDATA section is not escaped."""
        parts = re.split(rf'</?(span|div|img|br|cdata|markup)(?: translate="no")? {self._nonce}-([0-9]+)>', translated)
        written, section = [], ""
        for text, tag, number in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
            if not xml:
                written.append(text)
            elif section:
                content = html.unescape(text) if section == "cdata" else text
                written.append(content.replace("]]>", "]]]]><![CDATA[>"))
            else:
                written.append(text.replace("&nbsp;", "\xa0"))
            if tag:
                section = tag if tag in ("cdata", "markup") else "" if tag == "div" else section
                written.append(self._originals[int(number)])
        return "".join(written)


def mask(document: str, rules: DeeplParameters) -> Masked:
    """Returns the document as HTML for the translator. The content of `ignore_tags` is not translated; `splitting_tags` end a
    sentence and `non_splitting_tags` never do. With `outline_detection`, XML elements that hold whole texts also end one. In
    XML, all other elements are inline. In HTML, the translator's own rules apply to them."""
    masked = Masked()
    if rules.tag_handling == "xml":
        tokens = list(_without_ignored(scan_xml(document), rules))
        mark_outline(tokens, rules.splitting_tags, rules.non_splitting_tags, rules.outline_detection is not False)
        subset = "".join([token.raw for token in tokens if token.kind == "doctype"])
        entities = frozenset(ENTITY.findall(subset))
        masked.text = "".join([_as_html(token, masked, entities) for token in tokens])
    else:
        masked.text = "".join(_without_ignored_html(document, rules, masked))
    return masked


def _without_ignored(tokens: Sequence[Token], rules: DeeplParameters) -> Iterator[Token]:
    """Yields the tokens; an element that is not translated, or has no content, is one token."""
    end, skipped = None, []
    for token, after in pairwise([*tokens, Token("text", "")]):
        if end is None and token.kind == "start" and token.partner is not None:
            ignored = token.name.lower() in rules.ignore_tags or token.local in CODE or NOT_TRANSLATED.search(token.raw)
            end = token.partner if ignored or after is token.partner else None
        if end is None:
            yield token
            continue
        skipped.append(token.raw)
        if token is end:
            yield Token("empty", "".join(skipped), token.name)
            end, skipped = None, []


def _as_html(token: Token, masked: Masked, entities: frozenset[str]) -> str:
    """Returns an XML token as HTML."""
    if token.kind == "text":
        parts = REFERENCE.split(token.raw)
        texts = [html.escape(text, quote=False) for text in parts[::2]]
        references = [_reference(reference, masked, entities) for reference in parts[1::2]]
        return "".join([part for pair in zip(texts, [*references, ""], strict=True) for part in pair])
    if token.kind == "cdata":
        content = token.raw[len("<![CDATA[") : -len("]]>")]
        parts = list(scan_markup(content))
        marked_up = any(isinstance(part, Tag) for part in parts)
        inner = "".join(_section(parts, masked)) if marked_up else html.escape(content, quote=False)
        return (
            masked.placeholder("<markup" if marked_up else "<cdata", "<![CDATA[")
            + inner
            + masked.placeholder("<div", "]]>")
        )
    if token.splits:
        return masked.placeholder("<div", token.raw)
    slash = "</" if token.kind == "end" else "<"
    return masked.placeholder(slash + "span" if token.partner else "<img", token.raw)


def _reference(reference: str, masked: Masked, entities: frozenset[str]) -> str:
    """Returns a reference to a character or an entity as HTML. What only the document defines is moved like a word."""
    if LINE_END.fullmatch(reference):
        return masked.placeholder("<br", reference)
    known = reference.startswith("&#") or (reference[1:] in html5 and reference[1:-1] not in entities)
    return reference if known else masked.placeholder("<img", reference)


def _section(parts: Sequence[str | Tag], masked: Masked) -> Iterator[str]:
    """Yields the HTML of a CDATA section. Markup that could hide the end of the section is replaced."""
    unclosed: Counter[str] = Counter()
    for part in parts:
        if isinstance(part, Tag):
            unclosed[part.name] += part.opens - part.closing
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            hides = not part.name or part.name in OPAQUE or unclosed[part.name] > 0
            yield masked.placeholder("<br", part.raw) if hides else part.raw


def _without_ignored_html(document: str, rules: DeeplParameters, masked: Masked) -> Iterator[str]:
    """Yields HTML with each element that is not translated within another that says so."""
    for token in scan_markup(document):
        if isinstance(token, str) or token.name not in rules.ignore_tags:
            yield token if isinstance(token, str) else token.raw
        else:
            start = "" if token.closing else masked.placeholder('<span translate="no"', "")
            yield start + token.raw + ("" if token.opens else masked.placeholder("</span", ""))
