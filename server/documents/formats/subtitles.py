"""Reads subtitles (.srt, .vtt). Only the spoken text is translated; numbers, times, notes and styles are kept."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter

from server.documents.document import Document, has_words
from server.documents.formats.plain import decode
from server.text.syntax.markup import markup_tokens
from server.text.tagged import escaped

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
MOMENT = re.compile(r"<\d[\d:.,]*>")
TIMED = "<img t>"
SOUND, BREAK = re.compile(r"^((?:<[^<>]*>)*[(\[][^()\[\]<>a-zß-ÿ]*[A-ZÀ-Þ][^()\[\]<>a-zß-ÿ]*[)\]])\s+(?=\S)"), "<br>"
"""A sound before the words, which is a text of its own: `(LAUGHS) That is funny!`"""
HEAD = re.compile(r"(?:\{\\[^}]{0,100}\}|[-–—]\s)*")
WORDS = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
OPEN_END = re.compile(r"[\w,’']$")
JOINED_CUES = 4
DASHES = frozenset("-–—")
TIMES = re.compile(r"\s*\d+:[\d:.,]*\s*-->")
SENTENCE_END = re.compile(r"[.!?…。！？♪♫][\"'”’»)\]]*(?:</[^<>]*>)*$")
SPEAKER = re.compile(r"\s*[-–—]\s")


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines of a subtitle that are one text. `lines` are as written, `head` is a position code or a dash before the
    text, and `moments` are the times of single words, which are images in the text."""

    lines: tuple[str, ...]
    head: str
    text: str
    moments: tuple[str, ...] = ()


def read_subrip(data: bytes, target: str) -> Document:
    """Reads subtitles in the format SubRip."""
    return read(data, web=False)


def read_webvtt(data: bytes, target: str) -> Document:
    """Reads subtitles in the format WebVTT, which escapes text as HTML does."""
    return read(data, web=True)


def read(data: bytes, web: bool) -> Document:
    """Reads subtitles in one of the two formats."""
    text, encode = decode(data)
    parts = list(split_cues(text, web))
    groups = joined_cues([part for part in parts if isinstance(part, Cue) and has_words(part.text)])
    texts = tuple(" ".join(cue.text for cue in group) for group in groups)

    def write(translations: Sequence[str]) -> bytes:
        made: dict[int, str] = {}
        for group, text, translated in zip(groups, texts, translations, strict=True):
            if translated != text:  # an unchanged text is copied
                made |= zip(map(id, group), cut(translated, [len(cue.text) for cue in group]), strict=True)
        return encode("".join(lay_out(part, made.get(id(part)), web) for part in parts))

    return Document(texts, "html", write)


def joined_cues(cues: Sequence[Cue]) -> list[list[Cue]]:
    """Groups the cues of one sentence: a cue that does not end one, followed by a cue that begins with a small letter.
    Cues with formatting or a speaker are not joined."""
    groups: list[list[Cue]] = []
    for cue in cues:
        last = groups[-1][-1] if groups else None
        continues = last is not None and OPEN_END.search(last.text) and cue.text[:1].islower() and not cue.head
        if continues and "<" not in groups[-1][-1].text + cue.text and len(groups[-1]) < JOINED_CUES:
            groups[-1].append(cue)
        else:
            groups.append([cue])
    return groups


def cut(translated: str, lengths: Sequence[int]) -> list[str]:
    """Cuts a translation into parts for cues whose texts had these lengths. Every part has a word."""
    words = translated.split()
    total, done, position = sum(lengths), 0, 0
    parts: list[str] = []
    for i, length in enumerate(lengths):
        done += length
        end, left = position + 1, len(lengths) - i - 1
        while end < len(words) - left and len(" ".join(words[: end + 1])) - len(words[end]) / 2 <= (
            len(translated) * done / total
        ):
            end += 1
        while left > 0 and end < len(words) - left and words[end] in DASHES:
            end += 1  # a dash at the beginning of a cue marks another speaker
        end = end if left else max(end, len(words))
        parts.append(" ".join(words[position:end]) or "…")
        position = end
    return parts


def split_cues(text: str, web: bool) -> Iterator[str | Cue]:
    """Yields the file in order: spoken text as cues, everything else as strings. A line with times begins a subtitle. In
    SubRip an empty line ends one only where another follows."""
    lines = LINE.findall(text)
    spoken: list[str] = []
    inside = False
    for i, starts in enumerate(header_lines(lines)):
        if inside and lines[i].strip() and not starts:
            spoken.append(lines[i])
            continue
        yield from cues_of(spoken, web)
        spoken = []
        yield lines[i]
        if starts:
            inside = bool(TIMES.match(lines[i]))
        elif web:
            inside = False
    yield from cues_of(spoken, web)


def header_lines(lines: Sequence[str]) -> list[bool]:
    """Returns whether each line belongs to the beginning of a subtitle: its times, or the number above them."""
    times = [bool(TIMES.match(line)) for line in lines]
    after = zip(lines, times, [*times[1:], False], strict=False)
    return [own or (below and line.strip().isdigit()) for line, own, below in after]


def cues_of(lines: list[str], web: bool) -> Iterator[Cue]:
    """Yields the lines of a subtitle as one cue, or as one cue for each speaker if lines begin with a dash."""
    start = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or SPEAKER.match(lines[i]):
            yield make_cue(lines[start:i], web)
            start = i


def make_cue(lines: list[str], web: bool) -> Cue:
    """Returns the lines as one cue."""
    joined = " ".join(line.strip() for line in lines)
    head = HEAD.match(joined)
    start = head.end() if head else 0
    words = MOMENT.split(SOUND.sub(rf"\1{BREAK}", joined[start:]))
    text = TIMED.join(word if web else change_text(word, escaped) for word in words)
    return Cue(tuple(lines), joined[:start], text, tuple(MOMENT.findall(joined)))


def lay_out(part: str | Cue, translated: str | None, web: bool) -> str:
    """Returns a part as written to the file. A translation has the number of lines of the original, of similar
    length."""
    if isinstance(part, str):
        return part
    if translated is None:
        return "".join(part.lines)
    moments = iter(part.moments)  # in order of time, also where their words have changed places
    timed = re.sub(TIMED, lambda _: next(moments, TIMED), translated if web else change_text(translated, html.unescape))
    words = WORDS.findall(part.head + timed.replace(BREAK, " "))
    rows: list[list[str]] = [[] for _ in part.lines]
    placed = zip(possible_rows(words, part.lines), words, strict=True)
    for (first, last), group in groupby(placed, key=itemgetter(0)):
        together = [word for _, word in group]
        total, done, row = sum(map(len, together)) + len(together), 0, first
        for word in together:
            best = first + min(last - first, int((last - first + 1) * (done + len(word) / 2) / total))
            if best == row or word not in DASHES:  # a dash at the beginning of a line marks another speaker
                row = best
            rows[row].append(word)
            done += len(word) + 1
    kept = [(row, line) for row, line in zip(rows, part.lines, strict=True) if row]
    ending = part.lines[-1][len(part.lines[-1].rstrip("\r\n")) :]
    inner = part.lines[0][len(part.lines[0].rstrip("\r\n")) :]
    return inner.join(" ".join(row) for row, _ in kept) + ending


def possible_rows(words: Sequence[str], lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the first and the last row in which each word of a translation may be: a line that ends with a sentence does
    so in a translation with as many sentences."""
    ended = list(accumulate(sum(bool(SENTENCE_END.search(word)) for word in WORDS.findall(line)) for line in lines))
    ends = [bool(SENTENCE_END.search(word)) for word in words]
    # How many sentences have ended where a row begins.
    whole = enumerate(zip(ended, lines[:-1], strict=False), 1) if sum(ends) == ended[-1] else ()
    breaks = [(count, row) for row, (count, line) in whole if SENTENCE_END.search(line.rstrip())]
    first, coming, sentence = 0, 0, 0
    for end in ends:
        while coming < len(breaks) and breaks[coming][0] <= sentence:
            first, coming = breaks[coming][1], coming + 1
        yield first, breaks[coming][1] - 1 if coming < len(breaks) else len(lines) - 1
        sentence += end


def change_text(text: str, change: Callable[[str], str]) -> str:
    """Returns the text with `change` applied to everything except tags."""
    return "".join(change(token) if isinstance(token, str) else token.raw for token in markup_tokens(text))
