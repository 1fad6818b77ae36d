"""Translates the segments of a text: one decoding of each, and the passes over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from model.search.options import DecodingOptions
from server.text.finishing import Finished
from server.translation.context import BURST, Draft, Pass, SentenceContext
from server.translation.passes import (
    address_form,
    checks,
    codes,
    first_letter,
    glossary_terms,
    masked_again,
    reranking,
    retry,
    sentence_parts,
    spelling,
)
from server.translation.preparation import Segment
from server.translation.types import Sentence, TranslationRequest

PASSES = (
    Pass(reranking.apply, lambda context, draft: context.options.rerank and not draft.copied, reranking.rows),
    Pass(first_letter.apply, lambda _, draft: draft.segment.read.count(" ") < first_letter.WORDS and not draft.copied),
    Pass(address_form.apply, lambda context, draft: context.leg.symbol and not draft.copied),
    Pass(masked_again.apply, lambda _, draft: not draft.copied),
    Pass(glossary_terms.apply, lambda _, draft: draft.segment.terms and not draft.copied),
    Pass(codes.apply, lambda *_: True),
    Pass(
        sentence_parts.apply,
        lambda _, draft: (draft.segment.continues or draft.segment.unfinished) and not draft.copied,
    ),
    Pass(spelling.apply, lambda context, draft: context.request.localize_numbers or not draft.copied),
    Pass(checks.apply, lambda _, draft: not draft.copied, checks.rows),
    Pass(retry.apply, lambda _, draft: draft.flags, retry.rows),
)
"""The passes in order, and when each runs. A new one is a file in `passes/` and a line here."""
IN_FLIGHT = 512
"""Segments of a text that are at the workers at the same time: enough for every slot of a GPU."""


class Translated(NamedTuple):
    """A sentence, and its hypotheses with their codes, best first."""

    sentence: Sentence
    finished: Sequence[Finished]

    def ranked(self, rank: int) -> Finished:
        """Returns a hypothesis, or the last one where there are fewer."""
        return self.finished[min(rank, len(self.finished) - 1)]


def _translated(draft: Draft) -> Translated:
    return Translated(draft.sentence(), draft.finished)


def rows(request: TranslationRequest, options: DecodingOptions) -> int:
    """Returns the rows that a sentence costs: those of its beam, whose width is known in the options, and those that each
    pass states."""
    return options.beam_size + sum([step.rows(request, options) for step in PASSES if step.rows])


async def translate(
    segments: Sequence[Segment],
    context: Callable[[int], SentenceContext],
    order: Sequence[int] = (),
    on_sentence: Callable[[int, Sentence], None] | None = None,
) -> list[Translated]:
    """Returns the sentences of segments, each translated in the `context` of its number. At most IN_FLIGHT of them are at the
    workers at the same time. Equal segments are translated once. The text has the segments in this `order`, where
    `on_sentence` gets the place and the sentence of each; the numbers ascend at their first places."""
    if len(segments) == 1 and on_sentence is None:  # needs no task
        return [_translated(await context(0).translate())]
    tasks: list[asyncio.Task[Draft]] = []
    begun: dict[Hashable, asyncio.Task[Draft]] = {}
    sentences: list[Translated] = []
    reported = 0
    try:
        for number in range(len(segments)):
            for ahead in range(len(tasks), min(number + IN_FLIGHT, len(segments))):
                content = segments[ahead].content
                if content not in begun:
                    begun[content] = asyncio.create_task(context(ahead).translate())
                tasks.append(begun[content])
                if len(tasks) % BURST == 0:
                    await asyncio.sleep(0)
            sentences.append(_translated(await tasks[number]))
            while on_sentence is not None and reported < len(order) and order[reported] <= number:
                on_sentence(reported, sentences[order[reported]].sentence)
                reported += 1
                if reported % BURST == 0:
                    await asyncio.sleep(0)
        return sentences
    finally:
        if len(sentences) < len(segments):
            for task in begun.values():
                task.cancel()
            await asyncio.gather(*begun.values(), return_exceptions=True)
