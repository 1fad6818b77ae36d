"""Links the words of a translation to the words of its source, so that inline markup can follow its words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from model.analysis.attention_alignment import Word, alignment_map, between_words, word_spans, words
from model.analysis.pair_alignment import WordedSentence, alignment_probabilities, links, spellings
from model.analysis.types import ALIGNMENT
from model.tokenizer import Decoding, Encoding
from server.engine.ipc.messages import JobResult, Look
from server.text.projection import WORD, Link
from server.text.segmentation import Span
from server.translation.catalog import Leg

log = logging.getLogger(__name__)


AT_ONCE = 400
"""Pairs of words up to which links are computed at once, in about half a millisecond; more take a thread."""
Attend = Callable[[Look], Awaitable[JobResult | None]]
"""Returns what a look asks for of the pass over a translation and its source; None if the worker cannot compute it."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """The words of a sentence and of its translation, as the worker needs them: runs of tokens. `spans` are their
    characters, and `written` are the words. `source` are those of the input of the model, special ones included."""

    worded: tuple[WordedSentence, WordedSentence]
    spans: tuple[Sequence[Span], Sequence[Span]]
    written: tuple[Sequence[str], Sequence[str]]
    source: Sequence[Word]


def _places(spans: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Returns the index in `spans` of each word, -1 for one that is not there."""
    indices = {span: index for index, span in enumerate(spans)}
    return [indices.get(word, -1) for word in words]


def word_links(
    leg: Leg, answer: JobResult, pair: SentencePair | None, sources: Sequence[Word], targets: Sequence[Word]
) -> dict[Link, float]:
    """Returns the spans of source and target words that belong together, with their probabilities: by all evidence if the
    worker was asked for that of a `pair`, else by the attention alone. `sources` and `targets` are the words as they were
    translated."""
    soft = alignment_map(answer.maps, leg.model.alignment)
    attention = between_words(soft, sources, targets)
    real = [[word for word in side if not word.special] for side in (sources, targets)]
    spans: Sequence[Sequence[Span]] = [[(word.start, word.end) for word in side] for side in real]
    written: Sequence[Sequence[str]] = [[word.text for word in side] for side in real]
    if pair is not None and answer.evidence is not None:
        found = attention
        attention = np.zeros((len(pair.spans[0]) + 1, len(pair.spans[1]) + 1), dtype=np.float32)
        if found.size:
            attention[np.ix_(_places(pair.spans[0], spans[0]), _places(pair.spans[1], spans[1]))] = found
        attention, spans, written = attention[:-1, :-1], pair.spans, pair.written
    pairs = links(alignment_probabilities(answer.evidence, attention, *written))
    return {(spans[0][i], spans[1][j]): probability for (i, j), probability in pairs.items()}


def compares_words(leg: Leg) -> bool:
    """Returns whether the model can compare words of both languages: it translates in both directions with one vocabulary,
    and does not name the language in the target."""
    model = leg.model
    return (leg.target, leg.source) in model.pairs and model.tokenizer.joint and leg.first_token is None


def sentence_pair(
    leg: Leg, source: str, target: str, cut: Callable[[str], Sequence[Span]] = word_spans
) -> SentencePair | None:
    """Returns the words of a sentence and its translation, which `cut` finds in both. Returns None if the model cannot
    compare them, or one side is longer than it reads."""
    model = leg.model
    if not compares_words(leg):
        return None
    worded: list[WordedSentence] = []
    found: list[list[Word]] = []
    read = leg.encode(source)
    sources = words(source, read.pieces, read.offsets, cut(source))
    for text, encoding in ((source, read), (target, model.tokenizer.encode(target, leg.source))):
        if len(encoding.ids) > model.max_length:
            return None
        every = sources if encoding is read else words(text, encoding.pieces, encoding.offsets, cut(text))
        found.append([word for word in every if not word.special])
        runs = tuple((word.pieces[0], word.pieces[-1] + 1) for word in found[-1])
        beginnings = model.tokenizer.beginnings(spellings([word.text for word in found[-1]]))
        worded.append(WordedSentence(encoding.ids, runs, beginnings))
    spans = [[(word.start, word.end) for word in side] for side in found]
    written = [[text[start:end] for start, end in side] for text, side in zip((source, target), spans, strict=True)]
    return SentencePair((worded[0], worded[1]), (spans[0], spans[1]), (written[0], written[1]), sources)


async def text_links(
    leg: Leg,
    source: str,
    target: str,
    written: Encoding | Decoding,
    pair: SentencePair | None,
    attend: Attend,
    cut: Callable[[str], Sequence[Span]] = word_spans,
) -> dict[Link, float]:
    """Returns the links of a text and its translation, whose tokens are `written`; none if `attend` returns nothing."""
    look = Look(leg.model.alignment.chosen(ALIGNMENT), words=pair.worded if pair else None)
    if (answer := await attend(look)) is None:
        return {}
    targets = words(target, written.pieces, written.offsets, cut(target))
    if pair is not None:
        sources = pair.source
    else:
        read = leg.encode(source)
        sources = words(source, read.pieces, read.offsets, cut(source))
    if len(sources) * len(targets) <= AT_ONCE:
        return word_links(leg, answer, pair, sources, targets)
    return await asyncio.to_thread(word_links, leg, answer, pair, sources, targets)


async def sentence_links(leg: Leg, read: str, tokens: tuple[int, ...], attend: Attend) -> list[Link]:
    """Returns links between the text `read` that the model read and the text of the `tokens` it wrote: by what `attend` returns
    of the attention of the model, or by position if that is None."""
    decoding = leg.model.tokenizer.decode_pieces(tokens)
    pair = sentence_pair(leg, read, decoding.text)
    linked = await text_links(leg, read, decoding.text, decoding, pair, attend)
    return sorted(linked) or links_by_position(read, decoding.text)


def links_by_position(source: str, target: str) -> list[Link]:
    """Links each target word to the source word at the same relative position."""
    sources = [match.span() for match in WORD.finditer(source)]
    goals = [match.span() for match in WORD.finditer(target)]
    return [(sources[i * len(sources) // len(goals)], goal) for i, goal in enumerate(goals)] if sources else []
