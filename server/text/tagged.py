"""Text with inline codes, in the terms of XLIFF 2.1 (section 4.2.3, inline elements). The scanners
of `server.text.syntax` create it."""

from __future__ import annotations

import html
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Literal, NamedTuple

from server.text.spans import Span, blanked

Role = Literal["ph", "sc", "ec"]
Word = Literal["", "name", "number"]
Escape = Literal["", "html", "xml"]
Place = tuple[int, int, int]
"""The number of a code in its source, and its start and end in a translation."""
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb rp rt s small span "
    "strike strong sub sup time tt u v".split()
)
"""Elements around words of a sentence; `v` in WebVTT. Those named by a number (`<0>`) are inline
too."""
RAISED = frozenset({"sup", "sub"})
PICTURES = frozenset("img svg audio video canvas object".split())
MASKED = "masked"
"""Kind of a number or name that the model lost in an earlier translation."""
AND = "and"
"""Kind of a "&" between words, which the model reads as "and"."""
SPELLED = frozenset({MASKED, AND, "unwritable"})
"""Kinds of codes that are text, which a translation may spell in another way."""


class Code(NamedTuple):
    """An inline code at [start, end) of a text.

    A "ph" stands alone; "sc" and "ec" are the start and the end of a pair around words (pc), which
    share a `pair` number above 0. `text[start:end]` is what a reader sees of the code: nothing for a
    tag, `%s` for itself. `equiv` is what a reader of the translation sees, and `data` what is
    written there; None writes `equiv` in the syntax of the text. `data` and `equiv` do not count in
    comparisons. `word` says whether the code stands for a name or a number. A code that `splits`
    separates sentences. `message` is the content of a code whose parts `flows` are translated.
    `kind` is the name of the element or of the syntax.
    """

    start: int
    end: int
    data: str | None = None
    role: Role = "ph"
    pair: int = 0
    word: Word = ""
    splits: bool = False
    message: Tagged | None = None
    flows: tuple[Span, ...] = ()
    kind: str = ""
    equiv: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Code) and self[:2] == other[:2] and self[3:-1] == other[3:-1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self[:2], self[3:-1]))

    def moved(self, by: int) -> Code:
        return Code(self.start + by, self.end + by, *self[2:]) if by else self


class Tagged(NamedTuple):
    """A text with its codes, which are sorted and do not overlap. `escape` is the syntax in which
    the text between them is written."""

    text: str
    codes: tuple[Code, ...] = ()
    escape: Escape = ""

    def is_text(self, code: Code) -> bool:
        """Returns whether a code is written as the text that a reader sees of it, without markup."""
        return code.data is None or code.data == ESCAPES[self.escape](code.equiv)

    @property
    def bare(self) -> str:
        """The text with spaces in place of its codes, except those that are SPELLED."""
        return blanked(self.text, [code[:2] for code in self.codes if code.kind not in SPELLED])

    def cut(self, start: int, end: int) -> Tagged:
        """Returns the part [start, end) with its codes (`owned`). Pairs are numbered from 1, so equal
        parts are equal."""
        if end - start == len(self.text) and not any(map(attrgetter("splits"), self.codes)):
            return self
        first, last = self.owned(start, end)
        pairs: dict[int, int] = {0: 0}
        codes = []
        for code in self.codes[first:last]:
            pair, moved = pairs.setdefault(code.pair, len(pairs)), code.moved(-start)
            codes.append(moved if pair == code.pair else moved._replace(pair=pair))
        return Tagged(self.text[start:end], tuple(codes), self.escape)

    def owned(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range of the codes of a part [start, end). Empty codes at its start belong to it
        from the first start of a pair, or after a splitting code; those at its end up to either."""
        codes = self.codes
        if not codes:
            return 0, 0
        first = bisect_left(codes, start, key=_start)
        last = bisect_right(codes, end, lo=first, key=_start)
        while last > first and codes[last - 1].end > end:
            last -= 1
        opened = start == 0
        for number in range(first, last):
            code = codes[number]
            if code.start > start or code.end > start:
                break
            if code.splits:
                first, opened = number + 1, True
            elif not opened and code.role == "sc":
                first, opened = number, True
        else:
            number = last
        if not opened:
            first = number
        for number in range(bisect_left(codes, end, lo=first, hi=last, key=_start), last):
            if codes[number].splits or (codes[number].role == "sc" and end < len(self.text)):
                return first, number
        return first, last

    def passages(self) -> list[Tagged]:
        """Returns the parts between splitting codes, each with the splitting codes before it."""
        cuts, size = [(0, 0)], len(self.text)
        inside = False
        for number, code in enumerate((*self.codes, Code(size, size, "", splits=True))):
            if code.splits and (inside or code.start > cuts[-1][0]):
                cuts.append((code.start, number))
                inside = False
            inside = inside or not code.splits
        if cuts[-1][1] < len(self.codes):
            cuts.append((size, len(self.codes)))
        return [
            Tagged(
                self.text[start:end],
                tuple([code.moved(-start) for code in self.codes[first:last]]),
                self.escape,
            )
            for (start, first), (end, last) in pairwise(cuts)
        ]

    def placed(self, text: str, places: Sequence[Place]) -> Tagged:
        """Returns a translation with the codes of this text at sorted places."""
        codes = []
        for number, start, end in places:
            code = self.codes[number]
            is_text = code.kind in SPELLED and code.message is None
            shown = text[start:end] if is_text else code.equiv
            codes.append(Code(start, end, *code[2:-1], shown))
        return Tagged(text, tuple(codes), self.escape)

    def with_parts(self, parts: Sequence[tuple[int, int, Tagged]]) -> Tagged:
        """Returns the text with sorted parts [start, end) and their codes (`owned`) replaced."""
        if len(parts) == 1 and not self.codes and parts[0][1] - parts[0][0] == len(self.text):
            return parts[0][2]._replace(escape=self.escape)
        texts: list[str] = []
        codes: list[Code] = []
        done = numbered = length = 0
        for start, end, part in (*parts, (len(self.text), len(self.text), Tagged(""))):
            first, last = self.owned(start, end) if end > start else (len(self.codes),) * 2
            codes += [code.moved(length - done) for code in self.codes[numbered:first]]
            texts += self.text[done:start], part.text
            length += start - done
            codes += [code.moved(length) for code in part.codes]
            length += len(part.text)
            done, numbered = end, max(last, numbered)
        return Tagged("".join(texts), tuple(codes), self.escape)

    def write(self, escape: Callable[[str], str] | None = None) -> str:
        """Returns the text with its codes as written in its syntax. `escape` is that of the text
        around a message."""
        escape = escape or ESCAPES[self.escape]
        parts: list[str] = []
        done = 0
        for code in self.codes:
            data = code.data
            if data is None:
                data = code.message.write(escape) if code.message else escape(code.equiv)
            parts += escape(self.text[done : code.start]), data
            escape = SECTIONS.get(code.kind, escape)
            done = code.end
        return "".join((*parts, escape(self.text[done:])))


_start = attrgetter("start")


def escaped(text: str) -> str:
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


ESCAPES: Mapping[Escape, Callable[[str], str]] = {
    "": str,
    "html": escaped,
    "xml": lambda text: html.escape(text, quote=False),
}
CDATA, CDATA_END = "<![CDATA[", "]]>"
SECTIONS: Mapping[str, Callable[[str], str]] = {
    "cdata": lambda text: text.replace(CDATA_END, "]]]]><![CDATA[>"),
    "cdata of markup": lambda text: escaped(text).replace(CDATA_END, "]]]]><![CDATA[>"),
    "cdata end": ESCAPES["xml"],
}
"""How the text after a code of these kinds is escaped: not at all in a CDATA section, or as HTML."""
