"""Coded text: a `Tagged` as one string with a mark for each code, for texts of documents.

A mark has the role of its code ("-", "|" if it splits, "=" for a word, "<" and ">" for a pair), its
number, its kind, and the equiv of a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from server.text.syntax.html import Builder
from server.text.tagged import Code, Tagged

MARK = re.compile(r"(\x02([-|=<>])(\d+) ([^ \x03]*) ?([^\x03]*)\x03)")
_RESERVED = dict.fromkeys((2, 3))


def coded(tagged: Tagged) -> str:
    """Returns a text with marks, without other characters that are reserved for marks."""
    parts: list[str] = []
    done = 0
    for number, code in enumerate(tagged.codes):
        role = (
            "|" if code.splits else "=" if code.word else {"sc": "<", "ec": ">"}.get(code.role, "-")
        )
        word = f" {code.equiv.translate(_RESERVED)}" if code.word else ""
        parts += (
            tagged.text[done : code.start].translate(_RESERVED),
            f"\x02{role}{number} {code.kind}{word}\x03",
        )
        done = code.end
    return "".join((*parts, tagged.text[done:].translate(_RESERVED)))


def decoded(text: str) -> Tagged:
    """Returns a coded text with its codes, whose data are their marks."""
    builder, parts = Builder(), MARK.split(text)
    builder.text(parts[0], parts[0])
    for mark, role, _, kind, equiv, following in zip(*[iter(parts[1:])] * 6, strict=True):
        if role in "<>":
            (builder.start if role == "<" else builder.end)(mark, kind, "pair")
        else:
            builder.code(mark, role == "|", kind, equiv, "name" if role == "=" else "")
        builder.text(following, following)
    return builder.tagged("")


def pieces(text: str) -> Iterator[str | int]:
    """Yields the texts and the numbers of the marks of a coded text in order."""
    parts = MARK.split(text)
    for start in range(0, len(parts), 6):
        if parts[start]:
            yield parts[start]
        if start + 3 < len(parts):
            yield int(parts[start + 3])


def written(text: str, codes: Sequence[Code], escape: Callable[[str], str] = str) -> str:
    """Returns a coded text with the data of `codes` in place of its marks."""
    return "".join(
        [
            escape(piece) if isinstance(piece, str) else codes[piece].data or ""
            for piece in pieces(text)
        ]
    )
