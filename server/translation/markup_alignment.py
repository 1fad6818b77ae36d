"""Which words of a translation come from which words of the source: needed to keep inline markup on its words."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from model.analysis.attention_alignment import AlignmentChoice, Weights, alignment_map, words
from server.engine.client.engine_client import EngineClient
from server.errors import AttentiveError
from server.text.markup_projection import Link
from server.text.segmentation import Span
from server.translation.catalog import Leg
from server.translation.preprocessing import Segment, SegmentedText
from server.translation.types import Sentence
from server.translation.word_pairs import sentence_pair

log = logging.getLogger(__name__)
WORD = re.compile(r"\w+")


class WordAligner:
    """Links the words of a translation to those of its source, from the attention of the model that translated."""

    def __init__(self, engine: EngineClient) -> None:
        self.engine = engine

    async def links(self, segmented: SegmentedText, sentences: Sequence[Sentence], boundaries: Sequence[int]) -> list[Link]:
        """Links between a passage and the translation that `Plan.join` makes of it, for the best hypotheses.

        Only a sentence with a boundary of markup inside needs to know about its words; any other is linked as a whole.
        """
        found: list[Link] = []
        done, written = 0, 0
        for segment, sentence in zip(segmented.segments, sentences, strict=True):
            start, end = segment.span
            written += start - done  # the separator before it
            target = sentence.targets[0]
            if any(start < boundary < end for boundary in boundaries):
                inner = await self._inner(segmented.leg, segment, sentence)
                found += [(shift_span(source, start), shift_span(goal, written)) for source, goal in inner]
            else:
                found.append(((start, end), (written, written + len(target))))
            written += len(target)
            done = end
        return found

    async def within(self, leg: Leg, read: str, ids: tuple[int, ...], tokens: tuple[int, ...]) -> list[Link]:
        """Links between the words of one sentence as the model read and wrote it, in characters."""
        decoding = leg.model.tokenizer.decode_pieces(tokens)
        paired = sentence_pair(leg, read, decoding.text)
        try:
            attended = await self.engine.align(leg.model, ids, tokens, None if paired is None else paired.question)
        except AttentiveError as error:
            log.warning("no alignment: %s", error.message)
            return links_by_position(read, decoding.text)
        encoding = leg.model.tokenizer.encode(read, leg.target)
        maps = attended.maps.cross  # (L, H, T, S)
        soft = alignment_map(maps, AlignmentChoice.load(leg.model.folder, maps.shape[0]))  # (T, S)
        found: list[Link] = []
        if paired is not None and attended.evidence is not None:
            sources = words(read, encoding.pieces, encoding.offsets)
            targets = words(decoding.text, decoding.pieces, decoding.offsets)
            found = sorted(paired.links(attended.evidence, soft, sources, targets))
        return found or links_by_attention(soft, encoding.offsets, decoding.offsets) or links_by_position(read, decoding.text)

    async def _inner(self, leg: Leg, segment: Segment, sentence: Sentence) -> list[Link]:
        """Links between a segment and its translation as they stand in the texts."""
        target = sentence.targets[0]
        if sentence.copied:
            return [(found.span(), found.span()) for found in WORD.finditer(target)]
        found = await self.within(leg, sentence.read, sentence.ids, sentence.hypotheses[0].tokens)
        written = leg.model.tokenizer.decode(sentence.hypotheses[0].tokens)
        # Where something was taken out and put back, the model's characters are not those of the texts.
        same = len(sentence.read) == len(segment.text) and len(written) == len(target)
        return found if same else links_by_position(segment.text, target)


def links_by_attention(soft: Weights, sources: Sequence[Span], targets: Sequence[Span]) -> list[Link]:
    """Each target piece linked to the source piece it attends to most, by attention (T, S)."""
    visible = [i for i, (start, end) in enumerate(sources) if end > start]
    if not visible:
        return []
    best = soft[: len(targets)][:, visible].argmax(axis=1)
    return [
        (sources[visible[int(column)]], target)
        for column, target in zip(best, targets, strict=True)
        if target[1] > target[0]
    ]


def links_by_position(source: str, target: str) -> list[Link]:
    """Each target word linked to the source word at the same relative place."""
    words = [found.span() for found in WORD.finditer(source)]
    goals = [found.span() for found in WORD.finditer(target)]
    return [(words[i * len(words) // len(goals)], goal) for i, goal in enumerate(goals)] if words else []


def shift_span(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by
