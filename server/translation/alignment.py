"""Links the words of a translation to the words of its source, so that inline markup can follow its words."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from model.analysis.attention_alignment import Weights, alignment_map, words
from model.analysis.pair_alignment import WordEvidence
from server.engine.client.engine_client import EngineClient
from server.errors import AttentiveError
from server.text.markup.projection import Link
from server.text.offsets import OffsetMap, reverse
from server.text.segmentation import Span
from server.translation.catalog import Leg
from server.translation.segments import SegmentedText
from server.translation.types import Sentence
from server.translation.word_pairs import SentencePair, sentence_pair

log = logging.getLogger(__name__)
WORD = re.compile(r"\w+")


async def passage_links(
    engine: EngineClient, segmented: SegmentedText, sentences: Sequence[Sentence], boundaries: Sequence[int]
) -> list[Link]:
    """Returns links between a passage and its best translation, as `SegmentedText.join` makes it.

    Only a sentence with a boundary of a mark inside is aligned by words. Any other sentence is one link.
    """
    links: list[Link] = []
    done, written = 0, 0
    for sentence in sentences:
        start, end = sentence.span
        written += start - done  # the separator before the sentence
        target = sentence.targets[0]
        if any(start < boundary < end for boundary in boundaries):
            inside = await _links_within(engine, segmented.leg, sentence)
            links += [(_shift(source, start), _shift(goal, written)) for source, goal in inside]
        else:
            links.append(((start, end), (written, written + len(target))))
        written += len(target)
        done = end
    return links


async def sentence_links(
    engine: EngineClient, leg: Leg, read: str, ids: tuple[int, ...], tokens: tuple[int, ...]
) -> list[Link]:
    """Returns links between the text `read` that the model read as `ids` and the text of the `tokens` it wrote: by the
    attention of the model, or by position if that is not available."""
    decoding = leg.model.tokenizer.decode_pieces(tokens)
    pair = sentence_pair(leg, read, decoding.text)
    links: list[Link] = []
    if attention := await sentence_attention(engine, leg, ids, tokens, pair):
        encoding, (soft, evidence) = leg.encode(read), attention
        if pair is not None and evidence is not None:
            sources = words(read, encoding.pieces, encoding.offsets)
            targets = words(decoding.text, decoding.pieces, decoding.offsets)
            links = sorted(pair.links(evidence, soft, sources, targets))
        links = links or _links_by_attention(soft, encoding.offsets, decoding.offsets)
    return links or links_by_position(read, decoding.text)


async def sentence_attention(
    engine: EngineClient, leg: Leg, ids: tuple[int, ...], tokens: tuple[int, ...], pair: SentencePair | None = None
) -> tuple[Weights, WordEvidence | None] | None:
    """Returns the attention (T, S) between the tokens of a translation and of its source, and for a `pair` the evidence
    which words belong together. Returns None if the worker cannot compute it."""
    try:
        result = await engine.align(leg.model, ids, tokens, pair.worded if pair else None, leg.first_token)
    except AttentiveError as error:
        log.warning("a sentence is neither aligned nor checked by attention because that failed: %s", error.message)
        return None
    return alignment_map(result.maps.cross, leg.model.alignment), result.evidence  # (L, H, T, S) -> (T, S)


async def _links_within(engine: EngineClient, leg: Leg, sentence: Sentence) -> list[Link]:
    """Returns links between the texts of a sentence and of its translation."""
    source, target = sentence.source, sentence.targets[0]
    if sentence.copied and target == source:
        return [(word.span(), word.span()) for word in WORD.finditer(target)]
    if sentence.copied or bool(sentence.to_read) != bool(sentence.to_target):  # the model's text was repaired
        return links_by_position(source, target)
    links = await sentence_links(engine, leg, sentence.read, sentence.ids, sentence.hypotheses[0].tokens)
    if not sentence.to_read:
        return links
    sources, goals = OffsetMap(reverse(sentence.to_read)), OffsetMap(sentence.to_target)
    return [(sources.span(source), goals.span(goal)) for source, goal in links]


def _links_by_attention(soft: Weights, sources: Sequence[Span], targets: Sequence[Span]) -> list[Link]:
    """Links each target piece to the source piece with the highest attention weight. `soft` has the shape (T, S)."""
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
    """Links each target word to the source word at the same relative position."""
    words = [found.span() for found in WORD.finditer(source)]
    goals = [found.span() for found in WORD.finditer(target)]
    return [(words[i * len(words) // len(goals)], goal) for i, goal in enumerate(goals)] if words else []


def _shift(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by
