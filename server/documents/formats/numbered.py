"""Texts whose codes stand for something else, by their numbers: elements of XML, marks of Markdown. In HTML, `<span k3>` is
around words, `<img k3>` is moved like a word, and `<br k3>` is between sentences."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

from server.text.syntax.markup import Tag, markup_tokens
from server.text.tagged import Tagged

NUMBERED_TAG = re.compile(r"</?(?:span|img|br|code) k([0-9]+)>")
NAMED = re.compile(r"(<code k\d+>)[^<]*</code k\d+>")


class NumberedText:
    """Collects a text and its codes as `html`; `originals[k]` is what the code with the number k stands for."""

    def __init__(self) -> None:
        self.originals: list[Any] = []
        self.parts: list[str] = []

    @property
    def html(self) -> str:
        return "".join(self.parts)

    def text(self, text: str) -> None:
        """Adds text."""
        self.parts.append(html.escape(text, quote=False))

    def open(self, original: Any) -> int:
        """Opens a pair around words and returns its number."""
        number = self._number(original)
        self.parts.append(f"<span k{number}>")
        return number

    def close(self, number: int) -> None:
        """Closes a pair."""
        self.parts.append(f"</span k{number}>")

    def atom(self, original: Any, name: str = "") -> None:
        """Adds a code that is moved like a word: an image, the mark of a note, or a `name` of the sentence."""
        tag = f"k{self._number(original)}>"
        self.parts.append(f"<code {tag}{html.escape(name, quote=False)}</code {tag}" if name else f"<img {tag}")

    def gap(self, original: Any) -> None:
        """Adds a code between sentences, which is not moved: a line break, a tabulator."""
        self.parts.append(f"<br k{self._number(original)}>")

    def written(self, translated: Tagged, escape: Callable[[str], str]) -> str:
        """Returns a translation with what its codes stand for."""
        parts: list[str] = []
        for piece, number in pieces(translated):
            raw = piece if number is None else self.originals[number]
            if isinstance(piece, str):
                parts.append(escape(piece))
            elif isinstance(raw, Tag):
                parts.append(raw.raw)
            else:
                parts.append(raw[piece.closing] if isinstance(raw, tuple) else raw)
        return "".join(parts)

    def _number(self, original: Any) -> int:
        self.originals.append(original)
        return len(self.originals) - 1


def pieces(tagged: Tagged) -> Iterator[tuple[str | Tag, int | None]]:
    """Yields the texts and the tags of a text in order, with the number of a code; a `span` is the end of a pair."""
    done = 0
    for code in tagged.codes:
        if done < code.start:
            yield tagged.text[done : code.start], None
        done = code.end
        for token in markup_tokens(NAMED.sub(r"\1", code.data or "")):
            if isinstance(token, str):
                yield html.unescape(token), None
            else:
                number = NUMBERED_TAG.fullmatch(token.raw)
                yield token, int(number[1]) if number else None
    if done < len(tagged.text):
        yield tagged.text[done:], None
