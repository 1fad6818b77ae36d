"""A text as sentences and the separators between them.

Sentences are spans of the text; whatever lies between two spans is a separator and is copied. So nothing can get lost:
joining separators and sentences is the text, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal

from sentencex import segment

Span = tuple[int, int]
"""Start and end (exclusive) in characters."""
Split = Literal["all", "punctuation", "none"]
"""Where a text is cut: at line ends and after sentences, after sentences only (the line ends of HTML are spaces), or
nowhere."""

# Line and paragraph ends, tabs (columns), and control characters, none of which a model is asked to carry.
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u2028\u2029]+")
# What begins an item of a list, or somebody's words in a dialogue.
BULLET = re.compile(r"(?:[-*+•‣◦▪●○·–—>]|#{1,6})[^\S\n]+(?=\S)")
WORDS = re.compile(r"\S(?:.*\S)?", re.DOTALL)

# Where an over-long sentence is best cut: after the mark, best kinds first. The last resort is anywhere.
CUTS = tuple(
    re.compile(pattern) for pattern in (r"[.!?…。！？]+[\"'”’»)\]]*\s*", r"[;:—–；：]\s*", r"[,،，、]\s*", r"\s+")
)


def split_sentences(text: str, language: str, split: Split = "all") -> list[Span]:
    """The sentences of a text, in order, without the white space around them.

    `language` guides the boundary rules (abbreviations); an unknown one gets general rules.
    """
    if split == "none":
        return list(_trimmed(text, 0, len(text)))
    breaks = BREAKS if split == "all" else CONTROLS
    return [span for line in split_lines(text, breaks) for span in _sentences_of_line(text, line, language)]


def split_lines(text: str, breaks: re.Pattern[str] = BREAKS) -> Iterator[Span]:
    """The lines and table cells of a text that are not blank, trimmed."""
    start = 0
    for found in breaks.finditer(text):
        yield from _trimmed(text, start, found.start())
        start = found.end()
    yield from _trimmed(text, start, len(text))


def _sentences_of_line(text: str, line: Span, language: str) -> Iterator[Span]:
    start, end = line
    if bullet := BULLET.match(text, start, end):
        start = bullet.end()
    content = text[start:end]
    parts = segment(language.replace("_", "-").split("-")[0].lower(), content)
    if "".join(parts) != content:  # the library normalised something away: the line stays whole rather than losing it
        parts = [content]
    for part in parts:
        yield from _trimmed(text, start, start + len(part))
        start += len(part)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    if found := WORDS.search(text, start, end):
        yield found.span()


def split_long_sentence(text: str, starts: Sequence[int], limit: int) -> list[Span]:
    """Cuts an over-long sentence into spans of at most `limit` tokens.

    `starts` holds the character at which each token starts, ascending. A cut falls in the last two thirds of what fits,
    at the best mark there is: end of a sentence, semicolon, comma, white space, and between two tokens where there is
    none. The spans, with the white space between them, are the text. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    spans: list[Span] = []
    begin, token = 0, 0
    while len(starts) - token > limit:
        latest = max(starts[token + limit], begin + 1)
        earliest = max(starts[token + limit // 3], begin + 1)
        end = _best_cut(text, earliest, latest)
        spans += _trimmed(text, begin, end)
        begin = end
        token = bisect_left(starts, end)
        if token == len(starts) or starts[token] > end:  # the token before reaches over the cut (its leading space)
            token -= 1
    spans += _trimmed(text, begin, len(text))
    return spans


def _best_cut(text: str, earliest: int, latest: int) -> int:
    """The end of the last match of the best kind of mark that ends in [earliest, latest]; `latest` where there is
    none."""
    for pattern in CUTS:
        ends = [found.end() for found in pattern.finditer(text, earliest - 1, latest) if found.end() >= earliest]
        if ends:
            return ends[-1]
    return latest
