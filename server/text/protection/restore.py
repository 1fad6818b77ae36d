"""Restores the protected spans of a sentence in its translation: every span once, even if the model drops or doubles its
stand-in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.text.markup.projection import SYMBOL, Link, SpanProjection
from server.text.markup.transfer import project_marks, with_marks
from server.text.offsets import OffsetMap, Run, edited
from server.text.protection.mask import Masked, StandIn
from server.text.segmentation import Span

_MERGED_WORDS = re.compile(r"(?:[^\W\d_]\0(?![²³¹\u2070-\u209c])|\d\0)[^\W_]|\d[.,'’]?\0[.,'’]?\d")
"""Two words or two numbers that would become one if the text before and after the \\0 were joined. The raised number of a
note stands at its word."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A translation with every span, and the parts that it shares with the translation of the masked text."""

    text: str
    runs: tuple[Run, ...]


def restore(masked: Masked, target: str, links: Sequence[Link], write: Callable[[str], str] = str) -> Restored:
    """Returns a complete translation of the masked text (see `repaired`) with the spans. Other text is passed through
    `write`. A space is added where a span would otherwise merge with a word or a number."""
    writer = _Writer(separate=masked.read != target, apostrophe=masked.apostrophe)
    pattern = masked.pattern()
    originals = {item.word: item.original for item in masked.stand_ins}
    position = 0
    for part, is_mark in with_marks(project_marks(masked.marks, masked.read, target, links), target, str):
        if is_mark:
            writer.put(part, inserted=True, word=part in masked.taken_out)
            continue
        end = position + len(part)
        for match in pattern.finditer(target, position, end):
            writer.share(position, target[position : match.start()], write)
            original = originals[match[0]]
            writer.put(original, inserted=True)
            position = match.end()
            if match[0].isalpha() and original[-1:].isalnum() and target[position:end][:1] == "s":
                position += 1  # the s of a genitive would change the name of a variable
        writer.share(position, target[position:end], write)
        position = end
    return Restored("".join(writer.parts), tuple(writer.runs))


class _Writer:
    """Collects the parts of a restored translation. `separate` adds spaces between an inserted part and a word.
    Each apostrophe of the translation is written as `apostrophe`, if this is not empty."""

    def __init__(self, separate: bool, apostrophe: str) -> None:
        self.parts: list[str] = []
        self.runs: list[Run] = []
        self._separate, self._apostrophe = separate, apostrophe
        self._length = 0
        self._tail = ""
        self._after_inserted = self._after_word = False

    def share(self, position: int, part: str, write: Callable[[str], str]) -> None:
        """Adds a part of the translation, which is at `position` of it."""
        for i, piece in enumerate(part.split("'") if self._apostrophe else [part]):
            if i:
                self.put(self._apostrophe)
                position += 1
            written = write(piece)
            self.put(written)
            if piece:
                self.runs.append((position, self._length - len(written), min(len(piece), len(written))))
            position += len(piece)

    def put(self, part: str, inserted: bool = False, word: bool = False) -> None:
        """Adds any part. A letter after an inserted word is separated from it."""
        if not part:
            return
        merged = (inserted or self._after_inserted) and _MERGED_WORDS.search(f"{self._tail}\0{part[:2]}")
        if self._separate and (merged or (self._after_word and part[0].isalnum() and not self._tail[-1:].isspace())):
            part = " " + part
        self.parts.append(part)
        self._length += len(part)
        self._tail = (self._tail + part)[-2:]
        self._after_inserted, self._after_word = inserted, word


def repaired(masked: Masked, target: str, links: Sequence[Link]) -> tuple[str, list[Link]]:
    """Returns the translation with every stand-in as often as in the masked text, and the links moved accordingly.
    Those that the model added are removed; missing ones are inserted at the aligned place."""
    surplus, kept_links = _surplus(masked, target, links)
    edits = [(*_with_space(target, span), "") for span in surplus]
    projection = SpanProjection(masked.read, target, kept_links)
    for item in masked.missing(target):
        place = projection.project((item.span[0], item.span[0]))[0]
        edits.append((place, place, _spaced(masked.read, item, target, place)))
    text, runs = edited(target, _in_order(edits))
    moved = OffsetMap(runs)
    following = [(source, moved.span(goal)) for source, goal in kept_links]
    return text, [*following, *_occurrences(masked, text, following)]


def _surplus(masked: Masked, target: str, links: Sequence[Link]) -> tuple[list[Span], list[Link]]:
    """Returns the places of stand-ins that a translation has too often, and the links of everything else."""
    kept = _occurrences(masked, target, links)
    places = [match.span() for match in masked.pattern().finditer(target)]
    places += [match.span() for match in SYMBOL.finditer(target) if match[0] not in masked.read]
    others = [link for link in links if not any(start < link[1][1] and link[1][0] < end for start, end in places)]
    return [place for place in places if place not in {goal for _, goal in kept}], [*others, *kept]


def _occurrences(masked: Masked, target: str, links: Sequence[Link]) -> list[Link]:
    """Returns the stand-ins of the masked text that a translation contains, with both places. If the translation has
    one too often, linked occurrences are preferred, then earlier ones."""
    matches = list(masked.pattern().finditer(target))
    result: list[Link] = []
    for word in dict.fromkeys([item.word for item in masked.stand_ins]):
        spans = [item.span for item in masked.stand_ins if item.word == word]
        places = [match.span() for match in matches if match[0] == word]
        if len(places) > len(spans):
            places = sorted(places, key=lambda place: (not _linked(links, spans, place), place))[: len(spans)]
        result += zip(spans, sorted(places), strict=False)
    return result


def _linked(links: Sequence[Link], spans: Sequence[Span], place: Span) -> bool:
    """Returns whether a link connects one of the spans of the source with a place in the target."""
    return any(
        goal[0] < place[1] and place[0] < goal[1] and any(start < source[1] and source[0] < end for start, end in spans)
        for source, goal in links
    )


def _with_space(text: str, span: Span) -> Span:
    """Returns the span with the space before it, or after it at the beginning of the text."""
    start, end = span
    if text[start - 1 : start] == " ":
        return start - 1, end
    return start, end + (1 if start == 0 and text[end : end + 1] == " " else 0)


def _spaced(read: str, item: StandIn, target: str, place: int) -> str:
    """Returns the stand-in with the spaces that it has in the masked text, where they are missing at the place."""
    before = " " if read[: item.span[0]][-1:].isspace() and place > 0 and not target[place - 1].isspace() else ""
    next_character = target[place : place + 1]
    after = (
        " "
        if next_character.isalnum() or (place == 0 and next_character and read[item.span[1] :][:1].isspace())
        else ""
    )
    return before + item.word + after


def _in_order(edits: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Returns the edits in order, each beginning at the earliest where the one before ends, with one space between two
    that have no text between them."""
    result: list[tuple[int, int, str]] = []
    done, space = 0, False
    for start, end, written in sorted(edits, key=lambda edit: edit[:2]):
        space = space and start <= done
        replacement = written.removeprefix(" ") if space else written
        space = replacement.endswith(" ") or (space and not replacement)
        result.append((max(start, done), max(end, done), replacement))
        done = max(end, done)
    return result
