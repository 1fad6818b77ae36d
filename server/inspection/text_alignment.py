"""Word alignment of given sentences and translations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from model.analysis.attention_alignment import (
    AlignmentLayer,
    Weights,
    Word,
    alignment_map,
    coverage,
    reading_map,
    to_words,
    word_spans,
    words,
)
from model.analysis.types import ALIGNMENT
from model.search.options import DecodingOptions
from server.access.authentication import Caller
from server.engine.ipc.messages import Look
from server.inspection.inspector import ANYBODY, Inspector, charged_to
from server.inspection.types import AlignmentMethod, InspectionResult
from server.text.projection import Link
from server.text.spans import Span
from server.translation.alignment import compares_words, linked_words, pair_words
from server.translation.catalog import Leg


@dataclass(frozen=True, slots=True)
class Alignment:
    """Links (source word, target word, probability) by `model.analysis.pair_alignment`.

    `method` "combined" uses all evidence, "attention" only the contributions of the layer `chosen`.
    `weights` (V, W) are these contributions between all words; `coverage` is the attention to each
    source word, summed over the target.
    """

    method: AlignmentMethod
    chosen: AlignmentLayer
    links: tuple[tuple[int, int, float], ...]
    coverage: tuple[float, ...]
    weights: Weights


def numbered(
    links: Mapping[Link, float], source: Mapping[Span, int], target: Mapping[Span, int]
) -> list[tuple[int, int, float]]:
    """Returns links between spans as sorted links between word numbers. Other spans have none."""
    return sorted(
        (source[a], target[b], weight)
        for (a, b), weight in links.items()
        if a in source and b in target
    )


def align_words(result: InspectionResult) -> Alignment:
    """Returns the word alignment of a result whose words were linked."""
    chosen = result.subject.leg.model.alignment
    soft = alignment_map(result.attention.maps, chosen)
    sources, targets = result.source.words, result.target.words
    links = linked_words(result.attention.links, sources, targets)
    source, target = (
        {(word.start, word.end): number for number, word in enumerate(side) if not word.special}
        for side in (sources, targets)
    )
    return Alignment(
        "combined" if result.combined else "attention",
        chosen,
        tuple(numbered(links, source, target)),
        tuple(coverage(reading_map(result.attention.maps, chosen), sources, targets)),
        to_words(soft, targets, sources),
    )


PAIRS_AT_ONCE = 4
"""Pairs aligned at the same time: the worker has the next one while links are computed."""


_Spans = tuple[list[Span], list[Span]]
_Ids = tuple[tuple[int, ...], tuple[int, ...]]
_Words = tuple[Sequence[Word], Sequence[Word]]
_Read = tuple[_Ids, _Words, Look]


def between_spaces(text: str) -> list[Span]:
    """Returns the characters [start, end) of the words between spaces."""
    return [match.span() for match in re.finditer(r"\S+", text)]


@dataclass(frozen=True, slots=True)
class TextWord:
    """A word and its characters [start, end) in a text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AlignedTexts:
    """The words of two texts, and the links between them: source word, target word, probability."""

    source: list[TextWord]
    target: list[TextWord]
    links: list[tuple[int, int, float]]
    pharaoh: str


class TextAligner:
    """Aligns texts in the languages of a leg, each taken as one sentence, whose words `cut`
    returns. `method` becomes "attention" where the model cannot compare words. `characters` counts
    all texts of the caller. Belongs to one event loop."""

    def __init__(
        self,
        inspector: Inspector,
        leg: Leg,
        method: AlignmentMethod,
        cut: Callable[[str], list[Span]] = word_spans,
        caller: Caller = ANYBODY,
        characters: int = 0,
    ) -> None:
        self.inspector = inspector
        self.leg = leg
        self.method: AlignmentMethod = method if compares_words(leg) else "attention"
        self._cut = cut
        self._caller, self._characters = caller, characters
        self._charged = charged_to(caller, characters)
        self._turns = asyncio.Semaphore(PAIRS_AT_ONCE)

    async def align(self, source: str, target: str, name: str) -> AlignedTexts:
        """Returns the words and their links, none for a blank text. Errors call the pair `name`.
        Raises TextTooLong and the errors of a failed job."""
        async with self._turns:
            work = self.inspector.translator.work
            spans, read = await work(
                self._caller.name, self._characters, self._read, source, target, name
            )
            links = await self._links(spans, read) if read is not None else []
        written = [
            [TextWord(t[a:b], a, b) for a, b in side]
            for t, side in zip((source, target), spans, strict=True)
        ]
        return AlignedTexts(
            written[0], written[1], links, " ".join(f"{i}-{j}" for i, j, _ in links)
        )

    def _read(self, source: str, target: str, name: str) -> tuple[_Spans, _Read | None]:
        """Returns the words of two texts, and the worker's part: None if a text is blank."""
        spans = self._cut(source), self._cut(target)
        if not all(spans):
            return spans, None
        leg = self.leg
        encodings = leg.encode(source), leg.model.tokenizer.encode_target_pieces(target)
        ids = encodings[0].ids, encodings[1].ids
        self.inspector.check_length(leg, *ids, name)
        parts = zip((source, target), encodings, spans, strict=True)
        sides = [
            words(text, encoding.pieces, encoding.offsets, cut) for text, encoding, cut in parts
        ]
        pair = pair_words(leg, ids, (sides[0], sides[1]), combined=self.method == "combined")
        return spans, (
            ids,
            (sides[0], sides[1]),
            Look(leg.model.alignment.chosen(ALIGNMENT), words=pair, maps=False),
        )

    async def _links(self, spans: _Spans, read: _Read) -> list[tuple[int, int, float]]:
        leg, engine = self.leg, self.inspector.translator.engine
        (source, target), sides, look = read
        options = DecodingOptions(target=target, first_token=leg.first_token)
        answer = await engine.answer(leg.model, source, options, look, charged=self._charged)
        ours, theirs = ({span: number for number, span in enumerate(side)} for side in spans)
        return numbered(linked_words(answer.links, *sides), ours, theirs)
