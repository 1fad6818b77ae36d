"""XML as HTML for the translator, and back: which elements are inline, which end a sentence, which are left alone."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from server.text.html_passages import Tag, scan_markup


@dataclass(frozen=True, slots=True)
class TagRules:
    """Element names in lower case: `ignored` ones stand for themselves, `splitting` ones end a sentence. In XML every
    other element is inline; in HTML (`xml` False) the translator knows better."""

    xml: bool
    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()


@dataclass(slots=True)
class Masked:
    """A document whose tags are replaced by numbered stand-ins; `restore` puts them back."""

    text: str = ""
    _nonce: str = field(default_factory=lambda: secrets.token_hex(6))
    _originals: list[str] = field(default_factory=list)

    def stand_in(self, opening: str, original: str) -> str:
        """`opening` is "<span" and the like; the original is kept under the next number."""
        self._originals.append(original)
        return f"{opening} {self._nonce}-{len(self._originals) - 1}>"

    def restore(self, translated: str, xml: bool) -> str:
        """The translated document with the original tags. XML knows no `&nbsp;`."""
        if xml:
            translated = translated.replace("&nbsp;", "\xa0")
        pattern = re.compile(f"</?(?:span|div|img) {self._nonce}-([0-9]+)>")
        return pattern.sub(lambda found: self._originals[int(found[1])], translated)


def mask(document: str, rules: TagRules) -> Masked:
    """The document as HTML that the translator handles by the rules."""
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
                parts.append(masked.stand_in("<img", skipped))
                skipping = ""
        elif isinstance(token, Tag) and token.name in rules.ignored:
            if token.closing or raw.endswith("/>"):
                parts.append(masked.stand_in("<img", raw))
            else:
                skipping, depth, skipped = token.name, 1, raw
        elif isinstance(token, Tag) and token.name and rules.xml:
            parts.append(masked.stand_in(opening(token, rules), raw))
        else:
            parts.append(raw)
    if skipping:
        parts.append(masked.stand_in("<img", skipped))
    masked.text = "".join(parts)
    return masked


def opening(tag: Tag, rules: TagRules) -> str:
    """What stands in for an XML tag that is not ignored."""
    slash = "</" if tag.closing else "<"
    if tag.name in rules.splitting:
        return slash + "div"
    return "<img" if tag.raw.endswith("/>") else slash + "span"
