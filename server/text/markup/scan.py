"""Splits HTML into text and markup without changing a character of it.

A library that builds a tree repairs its input, and callers send fragments. This scanner only cuts: tags, comments,
scripts and broken markup are returned as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

OPAQUE = frozenset("script style textarea template noscript iframe pre".split())
"""Elements between sentences whose content is not translated."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements that have no end tag."""

NAME = re.compile(r"</?([a-zA-Z][^\s/>]*|\d+(?=\s*/?>))")
QUOTE_OR_END = re.compile(r"[\"'>]")
BROKEN_TAGS = 100
"""Number of tags with unbalanced quotes after which quotes are ignored, so that scanning takes linear time."""


@dataclass(frozen=True, slots=True)
class Tag:
    """One piece of markup as written. `name` is in lower case and "" for comments and declarations."""

    raw: str
    name: str = ""
    closing: bool = False

    @property
    def opens(self) -> bool:
        """Whether an end tag belongs to this tag."""
        return bool(self.name) and not self.closing and self.name not in VOID and not self.raw.endswith("/>")


def scan_markup(text: str) -> Iterator[str | Tag]:
    """Yields text and markup in order. Joined together they are the input. Takes linear time."""
    position, broken = 0, 0
    while (start := text.find("<", position)) >= 0:
        end, name = -1, ""
        if text.startswith("<!--", start):
            end = text.find("-->", start + 4) + 3
            end = len(text) if end < 3 else end
        elif found := NAME.match(text, start):
            name = found[1].lower()
            end = _tag_end(text, found.end()) if broken < BROKEN_TAGS else -1
            if end < 0:
                broken += 1
                end = text.find(">", start) + 1 or -1
        elif text.startswith(("<!", "<?"), start):
            end = text.find(">", start) + 1 or -1
        else:  # a "<" that begins no tag is text, up to the next "<"
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
        closing = text.startswith("</", start)
        yield Tag(text[start:end], name, closing)
        position = end
        if name in OPAQUE and not closing:
            # The content of a script is not markup: only the script's own end tag ends it.
            close = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, position)
            if content := text[position : close.start() if close else len(text)]:
                yield Tag(content)
            position += len(content)
    if position < len(text):
        yield text[position:]


def _tag_end(text: str, position: int) -> int:
    """Returns the position after the first ">" outside quotes, or -1. The attributes of the tag begin at `position`."""
    while found := QUOTE_OR_END.search(text, position):
        if found[0] == ">":
            return found.end()
        if (close := text.find(found[0], found.end())) < 0:
            return -1
        position = close + 1
    return -1
