"""Live translation of a sentence whose end is not known yet: the words that will not change.

AlignAtt (Papi et al. 2023, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide
for Simultaneous Speech Translation"): the words so far are translated, and the translation is given
out up to the first word that comes from one of the last source words, because later words may still
change it. The next translation begins with the words that were given out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from model.analysis.attention_alignment import Word, alignment_map, to_words
from model.analysis.types import ALIGNMENT
from model.search.options import DecodingOptions
from server.access.authentication import Caller
from server.errors import InvalidRequest
from server.inspection.inspector import ANYBODY, Inspector
from server.inspection.types import InspectedSentence, InspectionResult
from server.store.history import SentenceRecord
from server.text.spans import Span
from server.translation.preparation import segment_text

GREEDY = DecodingOptions(beam_size=1, loop_guard=True)


@dataclass(frozen=True, slots=True)
class LiveTranslation:
    """The translation of the first sentence of a text, at the characters `span`. It is `complete`
    if the sentence has ended; else its first `kept` pieces will not change. `aligned` is the source
    word of each word of the translation."""

    result: InspectionResult
    span: Span
    complete: bool
    kept: int
    aligned: tuple[int | None, ...]


async def translate_live(
    inspector: Inspector,
    text: str,
    source: str,
    target: str,
    *,
    prefix: Sequence[str] = (),
    wait: int = 2,
    final: bool = False,
    caller: Caller = ANYBODY,
    deadline: float | None = None,
) -> LiveTranslation:
    """Translates the first sentence of a text, beginning with the pieces of `prefix`. It has ended
    if another one follows or with `final`. Words from the last `wait` source words are not kept.

    Counts as two attention requests. Raises InvalidRequest, TextTooLong, Overloaded, TimeoutError,
    and the errors of a failed job.
    """
    leg = inspector.single_leg(source, target, "Live translation")
    async with asyncio.timeout_at(deadline):
        segmented = await inspector.translator.work(caller.name, len(text), segment_text, text, leg)
    if not segmented.segments:
        raise InvalidRequest("q has no words yet.")
    sentence = segmented.segments[0]
    start = segmented.starts[0]
    complete = final or len(segmented.order) > 1
    subject = InspectedSentence(
        leg, SentenceRecord(sentence.text, leg.encode_ids(sentence.text), ())
    )
    subject = await inspector.decoded(subject, GREEDY, 0, prefix, caller=caller, deadline=deadline)
    result = await inspector.attend(subject, deadline, caller=caller, choice=ALIGNMENT)
    aligned = _aligned(result)
    stable = stable_pieces(result.source.words, result.target.words, aligned, wait)
    kept = len(subject.pair.target) if complete else max(len(prefix), stable)
    return LiveTranslation(result, (start, start + len(sentence.text)), complete, kept, aligned)


def _aligned(result: InspectionResult) -> tuple[int | None, ...]:
    """Returns the source word that contributes most to each target word, None for special
    pieces."""
    sources, targets = result.source.words, result.target.words
    weights = to_words(
        alignment_map(result.attention.maps, result.subject.leg.model.alignment), targets, sources
    )
    weights[:, [word.special for word in sources]] = 0
    return tuple(
        None if word.special else int(row.argmax())
        for word, row in zip(targets, weights, strict=True)
    )


def stable_pieces(
    sources: Sequence[Word], targets: Sequence[Word], aligned: Sequence[int | None], wait: int
) -> int:
    """Returns the number of pieces before the first target word from one of the last `wait` source
    words. Punctuation belongs to the word after it, which may still change its place."""
    spoken = [number for number, word in enumerate(sources) if _has_letters(word)]
    first = [*[0] * wait, *spoken, len(sources)][len(spoken)]
    stable = 0
    for word, source in zip(targets, aligned, strict=True):
        if source is None or source >= first:
            break
        if _has_letters(word):
            stable = word.pieces[-1] + 1
    return stable


def _has_letters(word: Word) -> bool:
    return not word.special and any(map(str.isalnum, word.text))
