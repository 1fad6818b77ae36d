"""Reads subtitles (.srt, .vtt). Only the spoken text is translated; numbers, times, notes and styles are kept."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

from server.documents.document import Document, has_words
from server.documents.formats.html import spelled_as
from server.documents.formats.plain import decode
from server.text.segmentation import split_sentences
from server.text.syntax.markup import markup_tokens
from server.text.tagged import escaped

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
MOMENT = re.compile(r"<\d[\d:.,]*>")
TIMED = "<img t>"
SOUND, BREAK = re.compile(r"^((?:<[^<>]*>)*[(\[][^()\[\]<>a-zß-ÿ]*[A-ZÀ-Þ][^()\[\]<>a-zß-ÿ]*[)\]])\s+(?=\S)"), "<br>"
"""A sound before the words, which is a text of its own: `(LAUGHS) That is funny!`"""
HEAD, OPEN_HEAD = (
    re.compile(rf"(?:\{{\\[^}}]{{0,100}}\}}|[-–—]\s{opening})*") for opening in ("", r"|<[^<>/\d][^<>/]*>")
)
"""What is before the text, with tags where none ends."""
TAIL = re.compile(r"(?:</[^<>]*>)*$")
TAG = re.compile(r"<[^<>]*>")
WORDS = re.compile(r"(?:<[^<>]*>|[^ \t\r\n])+")
OPEN_END = re.compile(r"[\w,’']$")
JOINED_CUES = 4
DASHES = frozenset("-–—")
TIMES = re.compile(r"\s*\d+:[\d:.,]*\s*-->")
SPEAKER = re.compile(r"\s*(?:[-–—]\s|(?:<[^<>]*>)*(?:>>|&gt;&gt;)|<v[\s.]|(?:<[^<>]*>)*[A-ZÀ-Þ][A-ZÀ-Þ .'’-]{1,30}:\s)")
"""The beginning of what another one says."""
ALONE = re.compile(r"\s*(?:<[^<>]*>|\{\\[^}]*\})*(?:[(\[][^()\[\]]*[)\]]|[♪♫][^♪♫]*[♪♫])(?:<[^<>]*>)*\s*")
"""A sound, or a line of a song."""


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines of a subtitle that are one text. `lines` are as written, `head` and `tail` are what is before and after the
    text, and `moments` are the times of single words, which are images in the text."""

    lines: tuple[str, ...]
    head: str
    text: str
    tail: str
    moments: tuple[str, ...]


def read(data: bytes, target: str, web: bool = False) -> Document:
    """Reads subtitles in the format SubRip, or WebVTT (`web`), which escapes text as HTML does."""
    text, encode = decode(data)
    parts = list(split_cues(text, web))
    groups = joined_cues([part for part in parts if isinstance(part, Cue) and has_words(part.text)])
    texts = tuple(" ".join(cue.text for cue in group) for group in groups)

    def write(translations: Sequence[str]) -> bytes:
        made: dict[int, str] = {}
        for group, text, translated in zip(groups, texts, translations, strict=True):
            if translated != text:  # an unchanged text is copied
                new = spelled_as(text, translated, {}) if web else translated
                made |= zip(map(id, group), lay_out(group, new, web), strict=True)
        written = (part if isinstance(part, str) else made.get(id(part), "".join(part.lines)) for part in parts)
        return encode("".join(written))

    return Document(texts, "html", write)


read_webvtt = partial(read, web=True)


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
    """Yields the lines of a subtitle as one cue, or as one cue for each speaker, sound and line of a song, and where a line
    ends with its sentence."""
    alone = [bool(ALONE.fullmatch(line)) for line in lines]
    words = [TAG.sub("", line).strip() for line in lines]
    ends = {end for _, end in split_sentences(" ".join(words), "en", "punctuation")} if len(lines) > 1 else set()
    start = 0
    for i, end in enumerate(accumulate([len(line) + 1 for line in words]), 1):
        if i == len(lines) or alone[i - 1] or alone[i] or end - 1 in ends or SPEAKER.match(lines[i]):
            yield make_cue(lines[start:i], web)
            start = i


def make_cue(lines: list[str], web: bool) -> Cue:
    """Returns the lines as one cue."""
    joined = " ".join(line.strip() for line in lines)
    start = (HEAD if "</" in joined else OPEN_HEAD).match(joined).end()  # type: ignore[union-attr]
    end = len(joined)
    if TAG.match(joined, joined.find("<", start)) and joined.find("</", start) == joined.find("<", start):
        end = TAIL.search(joined, start).start()  # type: ignore[union-attr]
    words = MOMENT.split(SOUND.sub(rf"\1{BREAK}", joined[start:end]))
    text = TIMED.join(word if web else change_text(word, escaped) for word in words)
    return Cue(tuple(lines), joined[:start], text, joined[end:], tuple(MOMENT.findall(joined)))


def lay_out(cues: Sequence[Cue], translated: str, web: bool) -> Iterator[str]:
    """Yields each cue of a text as written to the file, with its share of the words in as many lines of similar length."""
    moments = chain.from_iterable(cue.moments for cue in cues)  # in order, also where their words have changed places
    timed = re.sub(TIMED, lambda _: next(moments, TIMED), translated if web else change_text(translated, html.unescape))
    words = WORDS.findall(cues[0].head + timed.replace(BREAK, " ") + cues[-1].tail)
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


def change_text(text: str, change: Callable[[str], str]) -> str:
    """Returns the text with `change` applied to everything except tags."""
    return "".join(change(token) if isinstance(token, str) else token.raw for token in markup_tokens(text))
