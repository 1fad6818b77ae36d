"""Reads the spoken text of subtitles (.srt, .vtt)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

from server.documents.document import Document, Place, has_words, in_place
from server.documents.formats.html import spelled_as
from server.documents.formats.plain import decode
from server.text.segmentation import split_sentences
from server.text.syntax.html import Builder, pieces
from server.text.syntax.markup import Tag, markup_tokens
from server.text.tagged import ESCAPES, Tagged
from server.translation.coded_text import coded, written

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
MOMENT = re.compile(r"(<\d[\d:.,]*>)")
POINT = re.compile(rf"{MOMENT.pattern[:-1]}|\{{\\[^}}]{{0,100}}\}})")
"""The time of a word, or a position."""
SOUND = re.compile(
    r"^((?:<[^<>]*>)*[(\[][^()\[\]<>a-zß-ÿ]*[A-ZÀ-Þ][^()\[\]<>a-zß-ÿ]*[)\]])\s+(?=\S)"
)
"""A sound before the words: `(LAUGHS) That is funny!`"""
TAG = re.compile(r"<[^<>]*>|\{\\[^}]*\}")
WORDS = re.compile(r"(?:<[^<>]*>|[^ \t\r\n])+")
OPEN_END = re.compile(r"[\w,’']$")
JOINED_CUES = 4
DASHES = frozenset("-–—")
TIMES = re.compile(r"\s*\d+:[\d:.,]*\s*-->")
SPEAKER = re.compile(
    r"\s*(?:[-–—]\s|(?:<[^<>]*>)*(?:>>|&gt;&gt;)|<v[\s.]|(?:<[^<>]*>)*[A-ZÀ-Þ][A-ZÀ-Þ "
    r".'’-]{1,30}:\s)"
)
"""The beginning of the text of another speaker."""
ALONE = re.compile(
    r"\s*(?:<[^<>]*>|\{\\[^}]*\})*(?:[(\[][^()\[\]]*[)\]]|[♪♫][^♪♫]*[♪♫])(?:<[^<>]*>)*\s*"
)
"""A line that is a sound or of a song."""


class Cue(NamedTuple):
    """Lines of a subtitle as written, from `start` on, that are one text."""

    start: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines)

    @property
    def end(self) -> int:
        return self.start + sum(map(len, self.lines))


def read(data: bytes, target: str, web: bool = False) -> Document:
    """Reads SubRip, or WebVTT (`web`), which escapes text like HTML."""
    text, encode = decode(data)
    cues = [cue for cue in split_cues(text, web) if has_words(TAG.sub("", cue.text))]
    return in_place(
        text, encode, [place_of(group, text, web) for group in joined_cues(cues)], "coded"
    )


def place_of(cues: Sequence[Cue], file: str, web: bool) -> Place:
    """Returns the place of cues that are one text, which are written with the gaps between them."""
    source = " ".join(cue.text for cue in cues)
    tagged = tagged_of(source, web)
    between = [file[cue.end : after.start] for cue, after in pairwise(cues)]

    def write(translated: str) -> str:
        made = lay_out(cues, written_as(source, tagged, translated))
        return "".join(cue + gap for cue, gap in zip(made, [*between, ""], strict=True))

    return Place(cues[0].start, cues[-1].end, coded(tagged), write)


read_webvtt = partial(read, web=True)


def joined_cues(cues: Sequence[Cue]) -> list[list[Cue]]:
    """Groups the cues of one sentence: those without an end mark before a cue with a small first
    letter. Cues with formatting or a speaker are not joined."""
    groups: list[list[Cue]] = []
    for cue in cues:
        last = groups[-1][-1] if groups else None
        continues = last and OPEN_END.search(last.text) and cue.text[:1].islower()
        if last and continues and "<" not in last.text + cue.text and len(groups[-1]) < JOINED_CUES:
            groups[-1].append(cue)
        else:
            groups.append([cue])
    return groups


def split_cues(text: str, web: bool) -> Iterator[Cue]:
    """Yields the cues of a file in order. A line with times, or the number above it, begins a
    subtitle. In SubRip the text may have empty lines."""
    lines = LINE.findall(text)
    times = [bool(TIMES.match(line)) for line in lines]
    spoken: list[str] = []
    position, inside = 0, False
    for line, is_time, next_is in zip(lines, times, [*times[1:], False], strict=False):
        starts = is_time or (next_is and line.strip().isdigit())
        if inside and line.strip() and not starts:
            spoken.append(line)
        else:
            yield from cues_of(spoken, position)
            spoken = []
            inside = is_time if starts else inside and not web
        position += len(line)
    yield from cues_of(spoken, position)


def cues_of(lines: list[str], end: int) -> Iterator[Cue]:
    """Yields the lines of a subtitle, which end at `end`, as cues: a cue begins at each speaker,
    sound and line of a song, and after a line that ends a sentence."""
    alone = [bool(ALONE.fullmatch(line)) for line in lines]
    words = [TAG.sub("", line).strip() for line in lines]
    sentences = split_sentences(" ".join(words), "en", "punctuation") if len(lines) > 1 else ()
    ends = {end for _, end in sentences}
    first, start = 0, end - sum(map(len, lines))
    for i, length in enumerate(accumulate([len(line) + 1 for line in words]), 1):
        if (
            i == len(lines)
            or alone[i - 1]
            or alone[i]
            or length - 1 in ends
            or SPEAKER.match(lines[i])
        ):
            yield Cue(start, tuple(lines[first:i]))
            start += sum(map(len, lines[first:i]))
            first = i


def tagged_of(text: str, web: bool) -> Tagged:
    """Returns the text of cues with its codes: tags, times of single words, and a sound."""
    sound = SOUND.match(text)
    begin, end = (sound.end(1), sound.end()) if sound else (0, 0)
    tokens: list[str | Tag] = (
        [*markup_tokens(text[:begin]), Tag(text[begin:end], "br")] if sound else []
    )
    for number, part in enumerate(POINT.split(text[end:])):
        tokens += [Tag(part, "img")] if number % 2 else markup_tokens(part)
    return (
        Builder(read=pieces if web else lambda raw: iter([(raw, raw)]))
        .build(tokens)
        .tagged("html" if web else "")
    )


def written_as(source: str, tagged: Tagged, translated: str) -> str:
    """Returns a translation with its codes. The times of words stay in order."""
    new = written(translated, tagged.codes, ESCAPES[tagged.escape])
    moments = iter(MOMENT.findall(source))
    new = MOMENT.sub(lambda match: next(moments, match[0]), new)
    return spelled_as(source, new, {}) if tagged.escape else new


def lay_out(cues: Sequence[Cue], translated: str) -> Iterator[str]:
    """Yields each cue as written to the file, with its share of the translated words in as many
    lines."""
    words = WORDS.findall(translated)
    ends = list(accumulate((len(cue.text) + 1) / len(cue.lines) for cue in cues for _ in cue.lines))
    share = ends[-1] / (sum(map(len, words)) + len(words) or 1)
    rows: list[list[str]] = [[] for _ in ends]
    done, row = 0, 0
    for word in words:
        best = bisect_left(ends, share * (done + len(word) / 2), row, len(ends) - 1)
        if word not in DASHES:  # a dash at the beginning of a line marks another speaker
            row = best
        rows[row].append(word)
        done += len(word) + 1
    of_cues = iter(rows)
    for cue in cues:
        lines = [" ".join(row) for _, row in zip(cue.lines, of_cues, strict=False) if row] or ["…"]
        inner, ending = (line[len(line.rstrip("\r\n")) :] for line in (cue.lines[0], cue.lines[-1]))
        yield inner.join(lines) + ending
