"""A look inside: attention maps of a translation that was served, or of a given pair of texts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from server.access.admission import Admission
from server.engine.ipc.messages import AttentionResult
from server.errors import ExpiredTranslation, InvalidRequest, NotFound, TextTooLong
from server.history.memory import Pair, Record
from server.translation.catalog import Leg
from server.translation.history_record import history_record
from server.translation.time_limit import time_limit
from server.translation.translator import Translator
from server.translation.types import TranslationRequest
from server.translation.word_pairs import SentencePair, sentence_pair

HeadMask = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece as the model knows it, with its place in the sentence's text; special pieces have an empty place."""

    piece: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Look:
    """One sentence with its maps. `target` ends with the end of sentence, whose query is the last row; `decoder_input`
    is what the decoder read, so the keys of the decoder's self-attention: the start, then the target without its last
    piece. `scores` are the log-probabilities of the pieces of `target`. `candidates` are the likeliest pieces at every place
    with their log-probabilities."""

    id: str | None
    sentence: int
    sentences: int
    leg: Leg
    leg_number: int
    legs: int
    source_text: str
    target_text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    decoder_input: tuple[Token, ...]
    candidates: tuple[tuple[tuple[str, float], ...], ...]
    scores: tuple[float, ...]
    attended: AttentionResult
    pairing: SentencePair | None = None
    """The words that `attended.evidence` is about."""


@dataclass(frozen=True, slots=True)
class LookOptions:
    """What one look is to do: heads that are switched off, the one whose vectors are wanted, and whether the model is also
    asked, beside its attention, which words belong together."""

    masked: tuple[HeadMask, ...] = ()
    vectors_of: HeadMask | None = None
    align: bool = False


PLAIN = LookOptions()


@dataclass(frozen=True, slots=True)
class _Case:
    """What one look is about; `sentence` and `leg_number` are counted from 0."""

    leg: Leg
    pair: Pair
    id: str | None = None
    sentence: int = 0
    sentences: int = 1
    leg_number: int = 0
    legs: int = 1


class Inspector:
    """Answers attention requests through the translator's workers. Looks have a bound of their own (`admission` counts
    jobs), so that they cannot starve translations; `token_limit` bounds source and target of one look."""

    def __init__(self, translator: Translator, admission: Admission, token_limit: int) -> None:
        self.translator = translator
        self.admission = admission
        self.token_limit = token_limit

    async def served(
        self,
        id: str,
        *,
        sentence: int = 0,
        leg: int = 0,
        options: LookOptions = PLAIN,
        deadline: float | None = None,
    ) -> Look:
        """A translation that was served. Raises UnknownTranslation, ExpiredTranslation, NotFound, InvalidRequest."""
        if self.translator.history is None:
            raise NotFound("This server keeps no history; ask with q, source and target instead of an id.")
        record = await self.translator.history.find(id)
        return await self._look(record, id, sentence, leg, options, deadline)

    async def fresh(
        self,
        request: TranslationRequest,
        *,
        sentence: int = 0,
        leg: int = 0,
        options: LookOptions = PLAIN,
    ) -> Look:
        """A text that is translated for the occasion, as /translate would."""
        [translation] = await self.translator.translate(request)
        kept = translation.id if self.translator.history is not None else None
        return await self._look(history_record(translation), kept, sentence, leg, options, request.deadline)

    async def forced(
        self,
        text: str,
        translation: str,
        source: str,
        target: str,
        options: LookOptions = PLAIN,
        deadline: float | None = None,
    ) -> Look:
        """A given translation of a text, each taken as one sentence. The direction needs a model of its own."""
        catalog = self.translator.catalog
        route = catalog.route(catalog.source(source), catalog.target(target))
        if len(route) != 1:
            raise InvalidRequest("A given translation needs a model for exactly this direction.")
        tokenizer = route[0].model.tokenizer
        text, translation = text.strip(), translation.strip()
        pair = Pair(text, tokenizer.encode(text, route[0].target).ids, tokenizer.encode_target(translation))
        return await self._attend(_Case(route[0], pair), options, deadline)

    async def _look(
        self,
        record: Record,
        id: str | None,
        sentence: int,
        leg: int,
        options: LookOptions,
        deadline: float | None,
    ) -> Look:
        if not record.legs:
            raise InvalidRequest(
                "Source and target language are the same: the text was copied and nothing attended to it."
            )
        if not 0 <= leg < len(record.legs):
            raise InvalidRequest(f"leg must be between 0 and {len(record.legs) - 1} for this translation.")
        served = record.legs[leg]
        if not served.sentences:
            raise InvalidRequest("The text holds no sentence.")
        if not 0 <= sentence < len(served.sentences):
            raise InvalidRequest(f"sentence must be between 0 and {len(served.sentences) - 1} for this translation.")
        pair = served.sentences[sentence]
        if pair.copied:
            raise InvalidRequest(f"Sentence {sentence} holds nothing to translate and was copied.")
        model = self.translator.catalog.model(served.model)
        if model is None:
            raise ExpiredTranslation("The model that made this translation is no longer served.")
        # A target that filled the model to its last place has no row left for the end of sentence.
        shown = dataclasses.replace(pair, target=pair.target[: model.max_length - 1])
        case = _Case(
            Leg(model, served.source_language, served.target_language),
            shown,
            id,
            sentence,
            len(served.sentences),
            leg,
            len(record.legs),
        )
        return await self._attend(case, options, deadline)

    async def _attend(self, case: _Case, options: LookOptions, deadline: float | None) -> Look:
        pair, model = case.pair, case.leg.model
        limit = min(self.token_limit, model.max_length)
        if max(len(pair.source), len(pair.target) + 1) > limit:
            raise TextTooLong(
                f"A look inside takes at most {limit} tokens on either side; this sentence has {len(pair.source)} and "
                f"{len(pair.target) + 1}."
            )
        paired = sentence_pair(case.leg, pair.source_text, model.tokenizer.decode(pair.target)) if options.align else None
        async with time_limit(deadline):
            with self.admission.admit(1, deadline):
                attended = await self.translator.engine.attend(
                    model,
                    pair.source,
                    pair.target,
                    masked_heads=options.masked,
                    vectors_of=options.vectors_of,
                    words=None if paired is None else paired.question,
                )
        return described(case, attended, paired)


def described(case: _Case, attended: AttentionResult, paired: SentencePair | None) -> Look:
    """Maps with the pieces they are about."""
    tokenizer, pair, maps = case.leg.model.tokenizer, case.pair, attended.maps
    encoding = tokenizer.encode(pair.source_text, case.leg.target)
    decoding = tokenizer.decode_pieces(pair.target)
    target = tuple(Token(piece, *span) for piece, span in zip(decoding.pieces, decoding.offsets, strict=True))
    end = Token("</s>", len(decoding.text), len(decoding.text))
    return Look(
        id=case.id,
        sentence=case.sentence,
        sentences=case.sentences,
        leg=case.leg,
        leg_number=case.leg_number,
        legs=case.legs,
        source_text=pair.source_text,
        target_text=decoding.text,
        source=tuple(Token(piece, *span) for piece, span in zip(encoding.pieces, encoding.offsets, strict=True)),
        target=(*target, end),
        decoder_input=(Token("<s>", 0, 0), *target),
        candidates=tuple(
            tuple((tokenizer.piece(token), score) for token, score in zip(ids, scores, strict=True))
            for ids, scores in zip(maps.candidate_ids.tolist(), maps.candidate_scores.tolist(), strict=True)
        ),
        scores=tuple(maps.token_scores.tolist()),
        attended=attended,
        pairing=paired,
    )
