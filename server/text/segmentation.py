"""Splits a text into sentences.

Sentences are spans of the text. The text between two spans is a separator and is copied, so sentences and separators
joined together are the text, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

from sentencex import segment

from server.text.languages import primary_subtag

Span = tuple[int, int]
"""Start and end (exclusive) in characters."""
Split = Literal["all", "punctuation", "none"]
"""Where a text is split: at line ends and after sentences; after sentences only, because line ends in HTML are spaces;
or nowhere."""

# Line and paragraph ends, tabs (columns) and control characters. Models do not translate them.
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u2028\u2029]+")
# Further ends of sentences in lines that a program has laid out: columns, rulers, and colors of a terminal.
LAYOUT = re.compile(rf" {{3,}}|(?<!\S)([-=])\1{{2,}}(?!\S)|\x1b\[[0-?]*[ -/]*[@-~]|{BREAKS.pattern}")
# The beginnings of list items, lines of dialogue and headings: bullets, boxes, letters and numbers, also several of them.
# A letter with a point stands before a capital. It is small, because initials of names are capitals: i. The beginning.
BULLET = re.compile(
    r"(?:(?:[-*+•‣◦▪●○·–—]|--|\[[ xX]\]|>{1,3}|[-=]>|#{1,6}|[QA]:"
    r"|(?!v\.\s+Chr)(?:[a-h]|[ivx]{1,4})\.(?=[^\S\n]+[^\W\d_a-zß-ÿ][^\W_.])"
    r"|\d{1,2}(?:\.\d{1,2}){1,3}(?=[^\S\n]+(?:A|[A-Z][a-z]{2,})(?![\w/])))[^\S\n]+(?=\S))+"
)
# The label of an item: a) red b) green.
LABEL = re.compile(r"(?<![^\s.:;,])\(?(?:[a-z]|[ivx]{1,4}|\d{1,2})\)[^\S\n]+(?=\w)", re.IGNORECASE)
_LABEL_LENGTH = 6
_CUT_NAME = re.compile(r"(?<![\w.])[a-z_]\w+(?:\.[^\W\d]\w+)+\.$")
WORDS = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_UNSPACED = 40
"""Characters between two spaces from which on a line counts as one without spaces."""
_WINDOW, _UNSPACED_WINDOW = 4_000, 1_000
"""Characters of a line whose sentences are found at once; the second where most words have no space between them."""

# Where an over-long sentence is split, the best kinds first: after punctuation, before a word that begins a clause, at
# white space.
_CLAUSE = (
    r"(?=(?:and|or|but|because|which|who|whose|where|when|while|although|though|if|since|so that|und|aber|oder|sondern|denn"
    r"|weil|dass|wenn|obwohl|während|damit|wobei|et|ou|mais|car|parce|qui|dont|où|alors|lorsque|puisque|quand|si|y|o|pero|sino"
    r"|porque|cuando|mientras|aunque)\b)"
)
_LONGEST_CLAUSE_WORD = 10
CUTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[.!?…。！？]+[\"'”’»)\]]*\s*",
        r"[;:—–；：]\s*",
        rf"[,،]\s+{_CLAUSE}",
        r"[,،，、]\s*",
        rf"\s+{_CLAUSE}",
        r"\s+",
    )
)

# Where a long text is cut, the best kinds first: after line ends, after sentences, at white space.
TEXT_CUTS = tuple(re.compile(pattern) for pattern in (r"\n+", r"[.!?…][\"'”’»)\]]*\s+|[。！？][\"'”’»)\]]*\s*", r"\s+"))


def split_sentences(text: str, language: str, split: Split = "all") -> list[Span]:
    """Returns the sentences of a text, in order, without surrounding white space.

    `language` selects the rules for abbreviations; an unknown language uses general rules.
    """
    if split == "none":
        return list(_trimmed(text, 0, len(text)))
    breaks = CONTROLS if split != "all" else BREAKS
    if split == "all" and ("   " in text or "---" in text or "===" in text or "\x1b" in text):
        breaks = LAYOUT
    made: dict[str, list[str]] = {}
    subtag = primary_subtag(language)
    return [
        span
        for line in split_lines(text, breaks)
        for item in _items(text, line)
        for span in _sentences_of_line(text, item, subtag, made)
    ]


def split_lines(text: str, breaks: re.Pattern[str] = BREAKS) -> Iterator[Span]:
    """Yields the lines and table cells of a text that are not blank, without surrounding white space."""
    start = 0
    for found in breaks.finditer(text):
        yield from _trimmed(text, start, found.start())
        start = found.end()
    yield from _trimmed(text, start, len(text))


def _items(text: str, line: Span) -> Iterator[Span]:
    """Yields the items of a line that begins with a label, or the line. A label in brackets may be one that the text
    refers to: it begins no further item."""
    start, end = line
    first = LABEL.match(text, start, end) if text.find(")", start, start + _LABEL_LENGTH) > 0 else None
    if first is None:
        yield line
        return
    further = LABEL.finditer(text, first.end(), end) if text[start] != "(" else ()
    labels = [first.span(), *[label.span() for label in further if label[0][0] != "("], (end, end)]
    for label, following in pairwise(labels):
        yield from _trimmed(text, label[1], following[0])


def _sentences_of_line(text: str, line: Span, language: str, made: dict[str, list[str]]) -> list[Span]:
    """Returns the sentences of a line. `made` has the parts of lines before: equal lines are read once."""
    start, end = line
    if bullet := BULLET.match(text, start, end):
        start = bullet.end()
    content = text[start:end]
    if (parts := made.get(content)) is None:
        parts = made[content] = _parts_of_line(content, language)
    if len(parts) < 2:
        return [(start, end)]
    spans: list[Span] = []
    for part in _without_cut_names(parts):
        spans += _trimmed(text, start, start + len(part))
        start += len(part)
    return spans


def _parts_of_line(line: str, language: str) -> list[str]:
    """Returns the sentences of a line. A long one is read in windows, each from the last sentence of the one before, because
    the library takes time with the square of the length without spaces."""
    size = _WINDOW if line.count(" ") * _UNSPACED > len(line) else _UNSPACED_WINDOW
    parts: list[str] = []
    begin, continues = 0, False
    while True:
        window = line[begin : begin + size]
        found = segment(language, window)
        if "".join(found) != window:  # the library has normalised the text: it is kept whole so that nothing is lost
            found = [window]
        is_last = begin + len(window) == len(line)
        whole = is_last or len(found) < 2
        found = found if whole else found[:-1]
        begin += sum(map(len, found))
        parts += [parts.pop() + found[0], *found[1:]] if continues else found
        if is_last:
            return parts
        continues = whole


def _without_cut_names(parts: Sequence[str]) -> Iterator[str]:
    """Yields the parts of a line, joined where one ends within a name with dots: java.lang.String."""
    whole: list[str] = []
    for part in parts:
        if whole and not (whole[-1].endswith(".") and _CUT_NAME.search(whole[-1])):
            yield "".join(whole)
            whole = []
        whole.append(part)
    yield "".join(whole)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    if found := WORDS.search(text, start, end):
        yield found.span()


def blanked(text: str, spans: Iterable[Span], character: str = " ") -> str:
    """Returns a text with another character in place of each of these spans."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = character * (end - start)
    return "".join(characters)


def span_around(position: int, spans: Sequence[Span]) -> Span:
    """Returns that one of the spans, which are in order, that contains a position, or the empty span there."""
    i = bisect_left(spans, (position, position)) - 1
    return spans[i] if i >= 0 and position < spans[i][1] else (position, position)


def split_long_sentence(text: str, starts: Sequence[int], limit: int, whole: Sequence[Span] = ()) -> list[Span]:
    """Splits an over-long sentence into spans of at most `limit` tokens.

    `starts` holds the first character of each token, in ascending order. The parts `whole` of the text, which are in order,
    are not split, even if one is longer. A split lies in the last two thirds of the
    longest span that fits, at the best place: end of a sentence, semicolon, comma before a clause, comma, white space
    before a clause, white space, or else between two tokens. The spans and the white space between them are the text.
    Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    text = blanked(text, whole, "_")
    spans: list[Span] = []
    begin, token = 0, 0
    while len(starts) - token > limit:
        latest = max(starts[token + limit], begin + 1)
        earliest = max(starts[token + limit // 3], begin + 1)
        before, after = span_around(_best_cut(text, earliest, latest, CUTS, _LONGEST_CLAUSE_WORD), whole)
        end = before if before > begin else after
        spans += _trimmed(text, begin, end)
        begin = end
        token = bisect_left(starts, end)
        if token == len(starts) or starts[token] > end:  # the token before starts with the white space at the split
            token -= 1
    spans += _trimmed(text, begin, len(text))
    return spans


def goes_on(part: str, following: str) -> bool:
    """Returns whether a sentence that was split between two parts goes on there: before a small letter, or where the first
    part ends neither as a sentence nor with a colon."""
    return following[:1].islower() or part.rstrip("\"'”’»)]")[-1:] not in ".!?…:。！？："


def cut_text(text: str, limit: int) -> list[str]:
    """Cuts a long text into pieces of at most `limit` characters that together are the text.

    A cut lies in the last two thirds of a piece: after a line end, after a sentence, at white space, or else between
    two characters. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    pieces: list[str] = []
    begin = 0
    while len(text) - begin > limit:
        end = _best_cut(text, begin + limit // 3 + 1, begin + limit, TEXT_CUTS)
        pieces.append(text[begin:end])
        begin = end
    return [*pieces, text[begin:]]


def _best_cut(text: str, earliest: int, latest: int, kinds: Sequence[re.Pattern[str]], ahead: int = 0) -> int:
    """Returns the end of the last match of the best of `kinds` that ends in [earliest, latest] and not within a word, or
    `latest`. The patterns see `ahead` characters more."""
    for pattern in kinds:
        ends = [found.end() for found in pattern.finditer(text, earliest - 1, latest + ahead)]
        fit = [end for end in ends if earliest <= end <= latest and not _is_within_word(text, end)]
        if fit:
            return fit[-1]
    return latest


def _is_within_word(text: str, position: int) -> bool:
    """Returns whether the mark before a position belongs to a number or a word: 7,000, 10:30, e.g., 1990–95."""
    after = text[position : position + 1]
    return text[position - 1] in ".,:–" and after.isascii() and after.isalnum()
