"""Attention requests: the maps of a served, a new or a given translation."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Sequence

from model.analysis.pair_alignment import PairWords
from model.analysis.types import EVERYTHING, Head, MapChoice
from model.search.options import DecodingOptions
from model.symbols import FORMAL, INFORMAL
from server.access.admission import Permit
from server.access.authentication import Caller
from server.engine.ipc.messages import Charged, JobResult, Look
from server.errors import ExpiredTranslation, InvalidRequest, NotFound, TextTooLong
from server.inspection.head_worth import HeadWorth
from server.inspection.types import (
    AlignmentMethod,
    InspectedSentence,
    InspectionResult,
    Tokens,
    out_of_range,
    tokens,
)
from server.store.history import SentenceRecord, TranslationRecord
from server.task_process import TaskProcess
from server.translation.alignment import pair_words
from server.translation.catalog import AUTO, Leg
from server.translation.preparation import segment_text
from server.translation.translator import (
    DOCUMENT_CHARACTERS,
    EXACT_ENGINE,
    Translator,
    history_record,
)
from server.translation.types import TranslationRequest

ANYBODY = Caller("")


class Inspector:
    """Answers attention requests with the workers of the translator.

    `find`, `translate` or `given` returns a sentence, `attend` its maps. Admission counts attention
    requests apart from translations, with a share for each caller. `token_limit` bounds the source
    and the target of one request.
    """

    def __init__(self, translator: Translator, token_limit: int) -> None:
        self.translator = translator
        self.token_limit = token_limit
        self.encoders = TaskProcess("model.analysis.encoder_study")
        self.heads = HeadWorth()

    async def find(self, id: str, *, sentence: int = 0, leg: int = 0) -> InspectedSentence:
        """Returns a sentence of a served translation. Raises ExpiredTranslation, NotFound,
        InvalidRequest."""
        if self.translator.history is None:
            raise NotFound(
                "This server keeps no history; give q, source and target instead of an id."
            )
        return self._select(await self.translator.history.find(id), id, sentence, leg)

    async def translate(
        self, request: TranslationRequest, *, sentence: int = 0, leg: int = 0
    ) -> InspectedSentence:
        """Translates the request's first text and returns one of its sentences."""
        [translation] = await self.translator.translate(request)
        stored = self.translator.history is not None and request.storage != "none"
        id = translation.id if stored else None
        return self._select(history_record(translation), id, sentence, leg)

    def given(self, text: str, translation: str, source: str, target: str) -> InspectedSentence:
        """Returns a pair of given texts, each taken as one sentence. Raises InvalidRequest where
        the direction needs two models."""
        leg = self.single_leg(source, target, "A given translation")
        text = text.strip()
        tokens = leg.model.tokenizer.encode_target(translation.strip())
        return InspectedSentence(leg, SentenceRecord(text, leg.encode_ids(text), tokens))

    def single_leg(self, source: str, target: str, needed_by: str, model: str | None = None) -> Leg:
        """Returns the one model of a direction, or the one named `model`. Raises InvalidRequest
        where it needs two models."""
        catalog = self.translator.catalog
        route = (catalog.only(model) if model else catalog).route(source, target)
        if len(route) != 1:
            raise InvalidRequest(f"{needed_by} needs a model for exactly this direction.")
        return route[0]

    def check_length(
        self, leg: Leg, source: Sequence[int], target: Sequence[int], name: str = "this sentence"
    ) -> None:
        """Raises TextTooLong for a pair, which the message calls `name`, with too many tokens."""
        limit = min(self.token_limit, leg.model.max_length)
        if max(len(source), len(target) + 1) > limit:
            raise TextTooLong(
                f"An attention request takes at most {limit} tokens on either side; {name} has "
                f"{len(source)} and {len(target) + 1}."
            )

    def admit(self, caller: Caller, deadline: float | None, tokens: int) -> Permit:
        """Takes room for an attention request of `tokens`. Raises Overloaded or TimeoutError."""
        admission = self.translator.admission
        return admission.admit(
            max(1, tokens), deadline, caller=caller.name, weight=caller.weight, kind="look"
        )

    async def decoded(
        self,
        subject: InspectedSentence,
        options: DecodingOptions,
        hypothesis: int,
        prefix: Sequence[str],
        *,
        caller: Caller = ANYBODY,
        deadline: float | None = None,
    ) -> InspectedSentence:
        """Decodes the source of a sentence again. Returns it with a hypothesis, counted from 0,
        that begins with the pieces of `prefix`.

        Counts as an attention request. Raises InvalidRequest where there is no such hypothesis or
        piece, TextTooLong, Overloaded, TimeoutError, and the errors of a failed job.
        """
        leg, pair = subject.leg, subject.pair
        options = leg.decoding_options(options)
        if hypothesis >= options.beam_size:
            raise out_of_range("hypothesis", options.beam_size, f"a beam of {options.beam_size}")
        try:
            forced = leg.model.tokenizer.piece_ids(prefix)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        if len(forced) >= min(self.token_limit, leg.model.max_length):
            raise InvalidRequest("prefix has more pieces than a translation of this model.")
        options = dataclasses.replace(options, hypotheses=hypothesis + 1, prefix=forced)
        async with asyncio.timeout_at(deadline):
            with self.admit(caller, deadline, 2 * len(pair.source)):
                answer = await self.translator.engine.answer(
                    leg.model, pair.source, options, charged=charged_to(caller)
                )
        if hypothesis >= len(answer.hypotheses):
            raise out_of_range(
                "hypothesis", len(answer.hypotheses), f"this beam of {options.beam_size}"
            )
        target = answer.hypotheses[hypothesis].tokens[: leg.model.max_length - 1]
        pair = dataclasses.replace(pair, target=target, scores=(), ended=False)
        computation = " ".join(self.translator.engine.workers.computation)
        return dataclasses.replace(
            subject,
            id=None,
            pair=pair,
            options=answer.options,
            repeatable=computation.endswith(EXACT_ENGINE),
        )

    async def attend(
        self,
        subject: InspectedSentence,
        deadline: float | None = None,
        *,
        caller: Caller = ANYBODY,
        masked_heads: tuple[Head, ...] | None = None,
        vectors_of: Head | None = None,
        choice: MapChoice = EVERYTHING,
        method: AlignmentMethod | None = "attention",
    ) -> InspectionResult:
        """Runs the teacher-forced pass and returns the maps of the `choice`; others are zeros.
        `masked_heads` None stands for the heads that were off when the target was written.
        `vectors_of` is a head whose query, key and value vectors are returned. `method` links words,
        None does not. `deadline` is on the monotonic clock.

        Raises TextTooLong, Overloaded, TimeoutError, and the errors of a failed job.
        """
        pair, model = subject.pair, subject.leg.model
        self.check_length(subject.leg, pair.source, pair.target)
        characters = 2 * len(pair.source_text)
        (source, target), words = await self.translator.work(
            caller.name, characters, _read, subject, method
        )
        options = subject.options or DecodingOptions()
        heads = options.masked_heads if masked_heads is None else masked_heads
        decode = DecodingOptions(
            target=pair.target,
            masked_heads=heads,
            first_token=subject.leg.first_token,
            shortlist=subject.shortlist,
        )
        if method is not None:
            choice = model.alignment.chosen(choice, reading=True)
        look = Look(choice, vectors_of, words)
        as_written = subject.options is not None and set(heads) == set(options.masked_heads)
        async with asyncio.timeout_at(deadline):
            with self.admit(caller, deadline, len(pair.source) + len(pair.target)):
                attention = await self.translator.engine.answer(
                    model, pair.source, decode, look, charged=charged_to(caller)
                )
        result = InspectionResult(
            subject=subject,
            source=source,
            target=target,
            decoder_input=tokens(
                target.text, ("<s>", *target.pieces[:-1]), ((0, 0), *target.offsets[:-1]), {}
            ),
            candidates=(),
            scores=(),
            attention=attention,
            combined=words is not None and words.read is not None,
            masked_heads=heads,
            exact=as_written and (subject.repeatable or bool(pair.scores)),
        )
        return await self.translator.work(caller.name, characters, _with_scores, result, as_written)

    def _select(
        self, record: TranslationRecord, id: str | None, sentence: int, leg: int
    ) -> InspectedSentence:
        """Returns one sentence of a record. Raises InvalidRequest where there is none to
        inspect."""
        if not record.legs:
            raise InvalidRequest(
                "Source and target language are the same: the text was copied without a model, so "
                "it has no attention."
            )
        if not 0 <= leg < len(record.legs):
            raise out_of_range("leg", len(record.legs), "this translation")
        served = record.legs[leg]
        if not 0 <= sentence < len(served.sentences):
            raise out_of_range("sentence", len(served.sentences), "this translation")
        pair = served.sentences[sentence]
        if pair.copied:
            raise InvalidRequest(f"Sentence {sentence} holds nothing to translate and was copied.")
        model = self.translator.catalog.model(served.model)
        if model is None:
            self.translator.catalog.check_failed(lambda failed: failed.key == served.model)
            raise ExpiredTranslation("The model that made this translation is no longer served.")
        computation = " ".join(self.translator.engine.workers.computation)
        return InspectedSentence(
            Leg(
                model,
                served.source_language,
                served.target_language,
                model.tokenizer.symbol_of(
                    pair.source, served.target_language, served.source_language, (FORMAL, INFORMAL)
                ),
            ),
            # A target of the model's full length has no row left for the end of sentence.
            dataclasses.replace(pair, target=pair.target[: model.max_length - 1]),
            id,
            sentence,
            len(served.sentences),
            leg,
            len(record.legs),
            pair.options or served.options,
            served.computation == computation and computation.endswith(EXACT_ENGINE),
        )


def _read(
    subject: InspectedSentence, method: AlignmentMethod | None
) -> tuple[tuple[Tokens, Tokens], PairWords | None]:
    """Returns both sides and, unless `method` is None, the words to link."""
    source, target = sides = both_sides(subject)
    if method is None:
        return sides, None
    ids = subject.pair.source, subject.pair.target
    words = source.words, target.words
    return sides, pair_words(subject.leg, ids, words, combined=method == "combined")


def _with_scores(result: InspectionResult, as_written: bool) -> InspectionResult:
    maps, piece = result.attention.maps, result.subject.leg.model.tokenizer.piece
    computed = maps.token_scores.tolist()
    candidates = [
        # The shortlist may have no more tokens.
        tuple(
            [
                (piece(token), score)
                for token, score in zip(ids, scores, strict=True)
                if score > -math.inf
            ]
        )
        for ids, scores in zip(
            maps.candidate_ids.tolist(), maps.candidate_scores.tolist(), strict=True
        )
    ]
    scores = _scores(result.subject.pair, computed) if as_written else tuple(computed)
    return dataclasses.replace(result, candidates=tuple(candidates), scores=scores)


def charged_to(caller: Caller, characters: int = 0) -> Charged:
    """Returns whom a job is charged to. Many characters count as a document, which does not delay
    the caller's other requests."""
    return Charged(int(characters > DOCUMENT_CHARACTERS), caller.name, caller.weight)


def _scores(pair: SentenceRecord, computed: list[float]) -> tuple[float, ...]:
    """Returns the scores of a served target: those of its record, then the computed ones. A forced
    end counts as certain."""
    scores = [*pair.scores, *computed[len(pair.scores) :]]
    return (*scores[:-1], 0.0) if pair.ended else tuple(scores)


def both_sides(subject: InspectedSentence) -> tuple[Tokens, Tokens]:
    """Returns the source and the target, which ends with the end of sentence."""
    pair = subject.pair
    source = subject.leg.encode(pair.source_text)
    target = subject.leg.model.tokenizer.decode_pieces(pair.target)
    ending = len(target.text), len(target.text)
    return (
        tokens(pair.typed or pair.source_text, source.pieces, source.offsets, pair.originals),
        tokens(target.text, (*target.pieces, "</s>"), (*target.offsets, ending), pair.originals),
    )


async def trace_search(
    inspector: Inspector, request: TranslationRequest, sentence: int, caller: Caller = ANYBODY
) -> tuple[InspectedSentence, JobResult]:
    """Decodes one sentence (counted from 0) of the request's first text and records every step.

    Counts as an attention request. Raises InvalidRequest where the sentence does not exist, is
    copied, or needs two models, and the errors of a translation.
    """
    translator, source = inspector.translator, request.source
    if source.strip().lower() == AUTO:
        source = translator.detector.detect(request.texts[0])[0].language
    leg = inspector.single_leg(source, request.target, "A trace")
    text = request.texts[0]
    segmented = await translator.work(request.client, len(text), segment_text, text, leg)
    if not 0 <= sentence < len(segmented.order):
        raise out_of_range("sentence", len(segmented.order), "the text")
    segment = segmented.segments[segmented.order[sentence]]
    if not segment.ids:
        raise InvalidRequest(f"Sentence {sentence} holds nothing to translate and is copied.")
    options = leg.decoding_options(request.options)
    options = dataclasses.replace(options, trace=True, hypotheses=options.beam_size)
    async with asyncio.timeout_at(request.deadline):
        with inspector.admit(caller, request.deadline, 2 * len(segment.ids)):
            answer = await translator.engine.answer(
                leg.model, segment.ids, options, charged=charged_to(caller)
            )
    pair = SentenceRecord(segment.text, segment.ids, answer.hypotheses[0].tokens)
    return InspectedSentence(leg, pair, None, sentence, len(segmented.order)), answer
