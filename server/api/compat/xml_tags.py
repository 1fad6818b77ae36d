"""Represents XML as HTML for the translator and converts the result back."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from server.text.markup.scan import Tag, scan_markup


@dataclass(frozen=True, slots=True)
class TagRules:
    """Treatment of elements by their lower-case names. The content of `ignored` elements is not translated; `splitting`
    elements end a sentence. In XML, all other elements are inline. In HTML (`xml` False), the translator's own rules
    apply to them."""

    xml: bool
    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()


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
        define it."""
        if xml:
            translated = translated.replace("&nbsp;", "\xa0")
        pattern = re.compile(f"</?(?:span|div|img) {self._nonce}-([0-9]+)>")
        return pattern.sub(lambda match: self._originals[int(match[1])], translated)


def mask(document: str, rules: TagRules) -> Masked:
    """Returns the document as HTML that the translator treats according to the rules."""
    masked = Masked()
    parts: list[str] = []
    skipping, depth, skipped = "", 0, ""
    for token in scan_markup(document):
        raw = token if isinstance(token, str) else token.raw
        if skipping:
            skipped += raw
            if isinstance(token, Tag) and token.name == skipping:
                depth += -1 if token.closing else 0 if raw.endswith("/>") else 1
            if depth == 0:
                parts.append(masked.placeholder("<img", skipped))
                skipping = ""
        elif isinstance(token, Tag) and token.name in rules.ignored:
            if token.closing or raw.endswith("/>"):
                parts.append(masked.placeholder("<img", raw))
            else:
                skipping, depth, skipped = token.name, 1, raw
        elif isinstance(token, Tag) and token.name and rules.xml:
            parts.append(masked.placeholder(opening(token, rules), raw))
        else:
            parts.append(raw)
    if skipping:
        parts.append(masked.placeholder("<img", skipped))
    masked.text = "".join(parts)
    return masked


def opening(tag: Tag, rules: TagRules) -> str:
    """Returns the beginning of the placeholder for an XML tag that is not ignored."""
    slash = "</" if tag.closing else "<"
    if tag.name in rules.splitting:
        return slash + "div"
    return "<img" if tag.raw.endswith("/>") else slash + "span"
