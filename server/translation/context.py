"""The context of the translation of a sentence, and the draft that its steps take and return."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from model.analysis.attention_alignment import words
from model.analysis.types import ALIGNMENT
from model.search.options import DecodingOptions
from model.search.search import normalize
from server.engine.client.engine_client import EngineClient, InFlight
from server.engine.ipc.messages import Charged, JobResult, Look, ModelLoaded
from server.errors import AttentiveError
from server.observability.metrics import Metrics
from server.text.finishing import Finished
from server.text.language_id import LanguageDetector
from server.text.projection import Link
from server.translation import alignment
from server.translation.catalog import Leg
from server.translation.preparation import Segment
from server.translation.types import Flag, Sentence, TranslationRequest

log = logging.getLogger(__name__)
COPIED = JobResult(0)
"""The answer for a segment that no model reads."""
Form = Literal[
    "beam",
    "list",
    "reverse",
    "small",
    "address",
    "masked",
    "terms",
    "bare",
    "parts",
    "links",
    "attention",
    "wider",
]
"""A form in which a sentence is decoded. `server.translation.sentence.declared` has its rows."""


@dataclass(slots=True)
class Draft:
    """A translation of a segment between two steps. `segment` is as the model read it, `text` the
    best translation as the model wrote it. A copied draft has no hypotheses. `finished` are the
    final texts of the hypotheses with their codes. Flags and confidence are as in `Sentence`."""

    segment: Segment
    answer: JobResult
    text: str = ""
    finished: tuple[Finished, ...] = ()
    flags: frozenset[Flag] = frozenset()
    confidence: float | None = None

    @property
    def copied(self) -> bool:
        return not self.answer.hypotheses

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple([each.text for each in self.finished])

    def respelled(self, targets: Sequence[str]) -> Draft:
        """Returns the draft with other spellings of its final texts. Codes keep their places."""
        pairs = zip(self.finished, targets, strict=True)
        return replace(self, finished=tuple([each.respelled(text) for each, text in pairs]))

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.answer.hypotheses[0].tokens

    def score(self, options: DecodingOptions) -> float:
        """Returns the log-probability of the best hypothesis divided by the length penalty.
        (`Hypothesis.score` may be that of both directions.)"""
        scores = self.answer.hypotheses[0].token_scores
        return normalize(
            math.fsum(scores), max(1, len(scores)) + (options.first_token is not None), options
        )

    def sentence(self) -> Sentence:
        segment, answer = self.segment, self.answer
        return Sentence(
            segment.text, segment.ids, self.targets, answer.hypotheses, answer.timings, segment.read,
            segment.reading.originals, self.flags, self.confidence, answer.options,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class SentenceContext:
    """One segment with its leg and request. `options` and `best` are the options for all hypotheses
    and for the best one, with the defaults of the model. `translate` translates the arms of its
    messages. `declared` are the most rows of each form, `spent` those that were decoded.
    `on_progress` receives the tokens of the first decoding. The caller keeps the model loaded."""

    segment: Segment
    leg: Leg
    request: TranslationRequest
    options: DecodingOptions
    best: DecodingOptions
    priority: int
    translate: Callable[[SentenceContext], Coroutine[Any, Any, Draft]]
    engine: EngineClient
    detector: LanguageDetector
    metrics: Metrics
    declared: Mapping[Form, int]
    on_progress: Callable[[tuple[int, ...]], None] | None = None
    spent: dict[Form, int] = field(default_factory=dict)
    first: JobResult | None = None
    """The answer to the first decode, if `send` sent it."""

    def send(self, loaded: ModelLoaded) -> InFlight:
        """Sends the first decode. The caller sets `first` to its answer."""
        self.spend("beam", self.best.beam_size)
        return self.engine.send(
            self.leg.model, loaded, self.segment.ids, self.best,
            charged=self.charged, counted=True, on_progress=self.on_progress,
        )  # fmt: skip

    async def decode(
        self,
        form: Form,
        segment: Segment,
        *,
        prefix: tuple[int, ...] = (),
        target: tuple[int, ...] | None = None,
    ) -> Draft:
        """Translates a form of the segment, beginning with the tokens of `prefix`. A `target` is
        only scored. A segment without ids is copied."""
        if not segment.ids:
            return Draft(segment, COPIED)
        options, best = self.options, self.best
        if prefix or target is not None:  # these are not reranked
            options, best = [
                self.leg.decoding_options(replace(each, prefix=prefix, target=target))
                for each in (self.request.options, self.request.best)
            ]
        answer, self.first = self.first, None
        if answer is None:
            answer = await self.answer(form, self.leg, segment.ids, best)
        if best.hypotheses < options.hypotheses and target is None:
            # A longer list is searched further, and may have another best translation.
            wider = await self.answer(
                "list" if form == "beam" else form, self.leg, segment.ids, options
            )
            others = list(wider.hypotheses)
            for known in answer.hypotheses:
                if same := [each for each in others if each.tokens == known.tokens]:
                    others.remove(same[0])
            answer = replace(answer, hypotheses=(*answer.hypotheses, *others)[: options.hypotheses])
        return Draft(segment, answer, self.leg.model.tokenizer.decode(answer.hypotheses[0].tokens))

    async def links(self, read: str, ids: tuple[int, ...], tokens: tuple[int, ...]) -> list[Link]:
        """Returns the links between the text `read`, encoded as `ids`, and that of `tokens`; none
        if the attention failed."""
        source, target = self.leg.encode(read), self.leg.model.tokenizer.decode_pieces(tokens)
        sources = words(read, source.pieces, source.offsets)
        targets = words(target.text, target.pieces, target.offsets)
        pairs = alignment.pair_words(self.leg, (ids, tokens), (sources, targets))
        look = Look(self.leg.model.alignment.chosen(ALIGNMENT), words=pairs, maps=False)
        answer = await self.attention(ids, tokens, look, "links")
        if answer is None:
            return []
        return sorted(alignment.linked_words(answer.links, sources, targets))

    async def attention(
        self, ids: tuple[int, ...], tokens: tuple[int, ...], look: Look, form: Form = "attention"
    ) -> JobResult | None:
        """Returns the attention that `look` requests of a forced pass; None if that failed."""
        self.spend(form, 1)
        options = DecodingOptions(target=tokens, first_token=self.leg.first_token)
        try:
            return await self.engine.answer(
                self.leg.model, ids, options, look, charged=self.charged
            )
        except AttentiveError as error:
            log.warning(
                "a sentence is neither aligned nor checked by attention because that failed: %s",
                error.message,
            )
            return None

    @property
    def charged(self) -> Charged:
        return Charged(self.priority, self.request.client, self.request.weight)

    def answer(
        self, form: Form, leg: Leg, ids: tuple[int, ...], options: DecodingOptions
    ) -> Coroutine[Any, Any, JobResult]:
        """Returns the worker's answer to one job. The job has no deadline, because requests with
        other deadlines may share it."""
        on_progress = self.on_progress if form == "beam" else None
        self.spend(form, 1 if options.target is not None else options.beam_size)
        return self.engine.answer(
            leg.model, ids, options, charged=self.charged, counted=True, on_progress=on_progress
        )

    def spend(self, form: Form, rows: int) -> None:
        """Counts rows of a form. Raises RuntimeError if they were not declared."""
        self.spent[form] = spent = self.spent.get(form, 0) + rows
        if spent > self.declared.get(form, 0):
            raise RuntimeError(f"more rows of the form {form} than were declared")
