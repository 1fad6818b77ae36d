"""Word alignment of given sentences and translations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

from model.analysis.attention_alignment import word_spans
from model.search.options import DecodingOptions
from model.tokenizer import Encoding
from server.access.authentication import Caller
from server.engine.ipc.messages import JobResult, Look
from server.inspection.inspector import ANYBODY, Inspector, charged_to
from server.inspection.word_alignment import AlignmentMethod, numbered
from server.text.segmentation import Span
from server.translation.alignment import SentencePair, compares_words, sentence_pair, text_links
from server.translation.catalog import Leg

PAIRS_AT_ONCE = 4
"""Pairs that are aligned at the same time: the worker has the next one while the links of others are computed."""


_Spans = tuple[list[Span], list[Span]]
_Read = tuple[tuple[Encoding, Encoding], SentencePair | None]


def between_spaces(text: str) -> list[Span]:
    """Returns the characters [start, end) of the words of a text that has spaces between them."""
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
    """Aligns texts in the languages of a leg, each taken as one sentence, whose words `cut` finds. `method` is "attention"
    where the model cannot compare words. The texts of the `caller` have so many `characters` in all. Belongs to one event
    loop."""

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
        """Returns the words and their links; none if a text is blank. `name` is that of the pair in an error. Raises
        TextTooLong and the errors of a failed job."""
        async with self._turns:
            work = self.inspector.translator.work
            spans, read = await work(self._caller.name, self._characters, self._read, source, target, name)
            links = await self._links((source, target), spans, read) if read is not None else []
        words = [[TextWord(t[a:b], a, b) for a, b in side] for t, side in zip((source, target), spans, strict=True)]
        return AlignedTexts(words[0], words[1], links, " ".join(f"{i}-{j}" for i, j, _ in links))

    def _read(self, source: str, target: str, name: str) -> tuple[_Spans, _Read | None]:
        """Returns the words of two texts, and what the worker reads of both: None if one is blank."""
        spans = self._cut(source), self._cut(target)
        if not all(spans):
            return spans, None
        encodings = self.leg.encode(source), self.leg.model.tokenizer.encode_target_pieces(target)
        self.inspector.check_length(self.leg, encodings[0].ids, encodings[1].ids, name)
        pair = sentence_pair(self.leg, source, target, self._cut) if self.method == "combined" else None
        return spans, (encodings, pair)

    async def _links(self, texts: tuple[str, str], spans: _Spans, read: _Read) -> list[tuple[int, int, float]]:
        leg, engine = self.leg, self.inspector.translator.engine
        (source, target), pair = read
        options = DecodingOptions(target=target.ids, first_token=leg.first_token)

        async def attend(look: Look) -> JobResult:
            return await engine.inspect(leg.model, source.ids, options, look, charged=self._charged)

        linked = await text_links(leg, *texts, target, pair, attend, self._cut)
        ours, theirs = ({span: number for number, span in enumerate(side)} for side in spans)
        return numbered(linked, ours, theirs)
