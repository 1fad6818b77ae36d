"""Joins the lines of a hard-wrapped paragraph of plain text, and wraps its translation at the same width.

A line continues the one before it if the first word of it did not fit there. Items of lists, headings, verse, tables and
other lines that are shorter than the longest line of their paragraph stay lines of their own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

MIN_WIDTH = 40
"""Paragraphs whose longest line is shorter are not wrapped text."""
MAX_WIDTH = 160
SLACK = 0.1
"""Share of the width that a line may be shorter than one that is filled."""
CONTINUED = 0.25
"""Least share of the line breaks that are within a sentence: the next line begins with a small letter."""
ITEM = re.compile(r"\s*(?:[-*+•‣◦▪●○·–—>|#=~_]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]\s|\[)")
"""The beginning of an item that does not continue the line before: of a list, quotation, table, heading or rule."""
COLUMNS = re.compile(r"\S(?:\t|[ ]{3,})\S")
"""White space as between the columns of a table."""
END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*$")
FIRST_WORD = re.compile(r"\s*(\S+)")
NO_SPACES = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines of a text, as written, that are one `text`."""

    lines: tuple[str, ...]
    text: str

    def wrapped(self, translation: str) -> str:
        """Returns the translation in lines of the same width, indentation and line ends."""
        if translation == self.text:
            return "".join(self.lines)
        width = max(len(line.rstrip()) for line in self.lines)
        dense = len(NO_SPACES.findall(translation)) * 2 > len(translation)
        rows = textwrap.wrap(
            translation.strip(),
            width // 2 if dense else width,
            initial_indent=_indent(self.lines[0]),
            subsequent_indent=_indent(self.lines[1]),
            break_long_words=dense,
            break_on_hyphens=False,
        )
        first, last = self.lines[0], self.lines[-1]
        return first[len(first.rstrip("\r\n")) :].join(rows) + last[len(last.rstrip("\r\n")) :]


def paragraphs(lines: Sequence[str]) -> Iterator[str | Paragraph]:
    """Yields the lines of a text in order: wrapped ones as paragraphs, all others as they are."""
    start = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or not lines[i].strip() or not lines[i - 1].strip():
            yield from _parts(lines[start:i])
            start = i


def _parts(lines: Sequence[str]) -> Iterator[str | Paragraph]:
    """Yields the parts of lines without a blank line between them."""
    width = max([len(line.rstrip()) for line in lines])
    if len(lines) == 1 or not MIN_WIDTH <= width <= MAX_WIDTH:
        yield from lines
        return
    start = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or not _continues(lines[i - 1], lines[i], width, first=i - 1 == start):
            part = lines[start:i]
            if _is_prose(part):
                yield Paragraph(tuple(part), _joined(part))
            else:
                yield from part
            start = i


def _continues(line: str, next_line: str, width: int, first: bool) -> bool:
    """Returns whether a line continues in the next one. The `first` line of a part may have another indentation."""
    word = FIRST_WORD.match(next_line)
    if word is None or ITEM.match(next_line) or COLUMNS.search(line) or COLUMNS.search(next_line):
        return False
    if line.lstrip()[:1] in ("#", "=", "|", ">", "~", "_") or (not first and _indent(line) != _indent(next_line)):
        return False
    return len(line.rstrip()) + 1 + len(word[1]) > width * (1 - SLACK)


def _is_prose(lines: Sequence[str]) -> bool:
    """Returns whether lines are one text: enough line breaks are within a sentence."""
    within = [not END.search(line.rstrip()) and next_line.lstrip()[:1].islower() for line, next_line in pairwise(lines)]
    return any(within) and sum(within) >= CONTINUED * len(within)


def _joined(lines: Sequence[str]) -> str:
    """Returns the lines as one line. A word with a hyphen at the end of a line is kept together."""
    text = lines[0].strip()
    for line in lines[1:]:
        hyphen = text.endswith("-") and text[-2:-1].isalpha() and line.lstrip()[:1].islower()
        text += ("" if hyphen else " ") + line.strip()
    return text


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
