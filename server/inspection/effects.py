"""Effects of source words: by how much the log-probability of a target word falls when a source word is hidden."""

from __future__ import annotations

import asyncio
import dataclasses

import numpy as np

from model.search.options import DecodingOptions
from server.access.authentication import Caller
from server.engine.client.batch import gather_or_cancel
from server.errors import InvalidRequest
from server.inspection.inspector import ANYBODY, Inspector, charged_to
from server.inspection.types import InspectionResult

HIDDEN_LIMIT = 64
"""Largest number of source words whose effects are measured."""


async def with_effects(
    inspector: Inspector,
    result: InspectionResult,
    deadline: float | None = None,
    *,
    caller: Caller = ANYBODY,
) -> InspectionResult:
    """Returns the result with the effects of hiding each source word: its pieces are left out of the source, and the
    target is scored again. Counts as an attention request. Raises InvalidRequest, Overloaded, TimeoutError."""
    leg, pair = result.subject.leg, result.subject.pair
    hidden = [number for number, word in enumerate(result.source.words) if not word.special and word.text.strip()]
    if not 0 < len(hidden) <= HIDDEN_LIMIT:
        raise InvalidRequest(f"Effects are those of 1 to {HIDDEN_LIMIT} words; this sentence has {len(hidden)}.")
    options = DecodingOptions(
        target=pair.target,
        masked_heads=result.masked_heads,
        first_token=leg.first_token,
        shortlist=result.subject.shortlist,
    )
    sources = []
    for number in hidden:
        pieces = set(result.source.words[number].pieces)
        sources.append(tuple(id for place, id in enumerate(pair.source) if place not in pieces))
    engine, starts = inspector.translator.engine, [word.pieces[0] for word in result.target.words]
    effects = np.zeros((len(result.target.words), len(result.source.words)), dtype=np.float32)
    async with asyncio.timeout_at(deadline):
        with inspector.admit(caller, deadline, len(pair.source) + len(pair.target)):
            charged = charged_to(caller, len(sources) * len(pair.source_text))
            answers = await gather_or_cancel(
                [engine.answer(leg.model, source, options, charged=charged) for source in sources]
            )
    for number, answer in zip(hidden, answers, strict=True):
        lost = np.subtract(result.attention.maps.token_scores, answer.hypotheses[0].token_scores)
        effects[:, number] = np.add.reduceat(lost, starts)
    return dataclasses.replace(result, effects=effects)
