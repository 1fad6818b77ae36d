"""Texts with marked parts that a translation keeps (`kept_parts.txt`), and the invariants that a
translation of one breaks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)
_TAG = re.compile(r"[<\[](/?)([\w.:-]+)[^<>\[\]]*?(/?)[>\]]")
_SYNTAX = frozenset("{}<>[]\\%$#@_~^|`&=*")
_WRITTEN = frozenset(
    "\n .,;:!?'\"()-–—…«»‹›„“”‚‘’¿¡/\xa0\u202fäöüßàâæçéèêëîïôœùûÿáíóúñÄÖÜÀÂÆÇÉÈÊËÎÏÔŒÙÛŸÁÍÓÚÑ"
)
"""Punctuation and letters of German, French and Spanish beyond ASCII."""
_LOCAL = re.compile(r"(\d+)(?:([.:])(\d+))?([^\W\d_]{0,4})")
"""A measure or a time of day, which languages write in their own way: 4000mAh, 0.5l, 10:30."""
_SPACED_COLON = re.compile(r"(?<=\w)\s+:\s*(?=\d)|(?<=\d):\s+(?=\d)")


@dataclass(frozen=True, slots=True)
class KeptParts:
    """A text of a class. `parts` are kept. `pieces` are the text cut at its parts, kept ones at odd
    places."""

    kind: str
    text: str
    parts: tuple[str, ...]
    pieces: tuple[str, ...]

    def broken_rules(self, answer: str) -> list[str]:
        """Returns what is wrong with a translation of the text."""
        parts = [part for part in self.parts if _is_balanced(part)]
        broken = [f"part {part}" for part in parts if _count(part, answer) != self.text.count(part)]
        given, written = Counter(self.text), Counter(answer)
        broken += [f"sign {sign}" for sign in _SYNTAX if given[sign] != written[sign]]
        broken += [
            f"character {character!r}"
            for character in written
            if not given[character]
            and not (character.isascii() and character.isalnum())
            and character not in _WRITTEN
        ]
        if _SPACED_COLON.search(answer) and not re.search(r":\s", self.text):
            broken.append("space at a colon")
        if self.kind == "icu" and not self._frame().fullmatch(answer):
            broken.append("frame of the message")
        if self.kind == "tag" and not _is_nested(answer):
            broken.append("nesting")
        return broken

    def _frame(self) -> re.Pattern[str]:
        """Returns a pattern that matches the parts with a brace that is not closed, in order, with
        anything between."""
        pattern = ""
        for number, piece in enumerate(self.pieces):
            if number % 2 and not _is_balanced(piece):
                pattern += re.escape(piece)
            elif piece and not pattern.endswith(".*"):
                pattern += ".*"
        return re.compile(pattern, re.DOTALL)


def _count(part: str, answer: str) -> int:
    """Returns how often an answer has a part; a measure or time may be as the language writes it:
    0,5l, 100 m, 10h30."""
    local = _LOCAL.fullmatch(part)
    if local is None:
        return answer.count(part)
    whole, mark, rest, unit = local.groups(default="")
    written = {".": "[.,]", ":": r"(?:[.:]|\s?h\s?)"}.get(mark, "")
    return len(
        re.findall(rf"{whole}{written}{rest}\s?{unit}" if unit else whole + written + rest, answer)
    )


def _is_balanced(piece: str) -> bool:
    """Returns whether every brace of a part has its partner there."""
    plain = re.sub("'.*?'", "", piece)
    while plain != (plain := re.sub(r"\{[^{}]*\}", "", plain)):
        pass
    return "{" not in plain and "}" not in plain


def _is_nested(text: str) -> bool:
    """Returns whether every end tag closes the last start tag that is open, and all are closed."""
    opened: list[str] = []
    for tag in _TAG.finditer(text):
        if tag[1]:
            if not opened or opened.pop() != tag[2]:
                return False
        elif not tag[3] and f"/{tag[2]}" in text:
            opened.append(tag[2])
    return not opened


def _read(row: str) -> KeptParts:
    kind, marked = row.replace("⏎", "\n").replace("␛", "\x1b").split(" ", 1)
    pieces = _MARKED.split(marked)
    return KeptParts(kind, "".join(pieces), tuple(pieces[1::2]), tuple(pieces))


TEXTS = [
    _read(row)
    for row in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    if not row.startswith("#")
]
