"""POST /translate: the LibreTranslate interface with further parameters."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache, partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from model.search.options import DecodingOptions
from server.api.dependencies import (
    check_texts,
    deadline,
    enter,
    inline_or_stored,
    json_response,
    services_of,
    translation_request,
)
from server.api.openapi import WORK, content, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.base import Heads, address_form
from server.api.schemas.translation import TranslateAnswer, TranslateParameters
from server.api.sse import stream
from server.config import Settings
from server.errors import InvalidRequest
from server.text.language_id import UNSURE, DetectedLanguage
from server.text.languages import language_name
from server.translation.catalog import wider_beam
from server.translation.sentence import rows
from server.translation.types import Flag, OnFlag, Sentence, Translation, TranslationRequest

router = APIRouter(tags=["translation"], route_class=ParameterRoute)
WARNINGS: dict[Flag, str] = {
    "truncated": "the translation ends before the sentence does.",
    "repetition": "the translation repeats words that the source does not repeat.",
    "omission": "a part of the source is probably not translated.",
    "copied": "the source was copied and not translated.",
    "wrong_language": "the translation is in another language than the target.",
    "source_language": "the source is in another language than the stated one.",
    "number": "a number or a code of the source is missing, doubled or changed.",
    "low_confidence": "the translation is probably not good.",
    "placeholder_restored": "a placeholder was put at the aligned place, because the model dropped "
    "it.",
}
"""Meanings of the flags of a sentence, in the order of their listing."""


@router.post(
    "/translate",
    summary="Translate a text or a list of texts",
    response_model=TranslateAnswer,
    responses=errors(404, *WORK) | {200: content("text/event-stream")},
)
async def translate(request: Request, parameters: TranslateParameters) -> Response:
    """With `stream`, the answer is a stream of server-sent events: `sentence` for each finished
    sentence, `tokens` while one is decoded (with `stream_tokens`), and at the end `translation`
    with the whole body, or `error`.
    """
    services = services_of(request)
    texts = (parameters.q,) if isinstance(parameters.q, str) else tuple(parameters.q)
    options = decoding_options(parameters, services.settings)
    chosen = chosen_rows(
        parameters.beam_size or 0, options.hypotheses, bool(parameters.rerank), parameters.on_flag
    )
    check_texts(texts, services.settings, chosen)
    limit = deadline(request, field=parameters.timeout)
    characters = sum(map(len, texts))
    caller = await enter(request, characters, parameters.api_key)
    work = translation_request(
        request,
        caller,
        texts=texts,
        source=parameters.source,
        target=parameters.target,
        format=parameters.format,
        options=options,
        best_beam=chosen_beam(parameters, services.settings),
        deadline=limit,
        do_not_translate=tuple(parameters.do_not_translate),
        glossary=await inline_or_stored(
            request, caller, parameters.glossary, parameters.source, parameters.target
        ),
        localize_numbers=parameters.localize_numbers,
        **address_form(parameters.formality),
        on_flag=parameters.on_flag,
        model=parameters.model,
        thorough=parameters.details or parameters.on_flag != "mark",
    )
    if parameters.stream or parameters.stream_tokens:
        finish = partial(answer, parameters, sources=services.translator.catalog.sources)
        return await stream(services.translator, work, parameters.stream_tokens, finish)
    translations = await services.translator.translate(work)
    sources = services.translator.catalog.sources
    return await services.translator.work(
        caller.name, characters, response, parameters, translations, sources
    )


def response(
    parameters: TranslateParameters, translations: list[Translation], sources: Collection[str]
) -> Response:
    body = answer(parameters, translations, sources=sources)
    return json_response(
        body, headers={"Server-Timing": server_timing(translations), **doubts(translations)}
    )


def doubts(translations: list[Translation]) -> dict[str, str]:
    """Returns the header X-Warning with the flags of all sentences; nothing without any."""
    sentences = [
        sentence
        for translation in translations
        for leg in translation.legs
        for sentence in leg.sentences
    ]
    flagged = [sentence.flags for sentence in sentences if sentence.flags]
    if not flagged:
        return {}
    flags = frozenset[Flag]().union(*flagged)
    names = ", ".join([flag for flag in WARNINGS if flag in flags])
    return {"X-Warning": f"{len(flagged)} of {len(sentences)} sentences may be wrong: {names}"}


def decoding_options(parameters: TranslateParameters, settings: Settings) -> DecodingOptions:
    """Returns the options of a request. Raises InvalidRequest for too many alternatives."""
    if parameters.alternatives > settings.alternatives_limit:
        raise InvalidRequest(
            f"Invalid request: alternatives parameter must be <= {settings.alternatives_limit}"
        )
    return _options(
        chosen_beam(parameters, settings),
        parameters.length_penalty,
        parameters.max_length,
        parameters.alternatives + 1,
        parameters.no_repeat_ngram_size,
        parameters.loop_guard,
        parameters.masked_heads or (),
        settings.rerank if parameters.rerank is None else parameters.rerank,
    )


@lru_cache(maxsize=256)  # most requests have the same
def _options(
    beam: int,
    length_penalty: float | None,
    max_length: int | None,
    hypotheses: int,
    no_repeat_ngram_size: int,
    loop_guard: bool,
    masked_heads: Heads,
    rerank: bool,
) -> DecodingOptions:
    return DecodingOptions(
        beam_size=max(beam, hypotheses) if beam else 0,
        length_penalty=length_penalty,
        max_length=max_length,
        hypotheses=hypotheses,
        no_repeat_ngram_size=no_repeat_ngram_size,
        loop_guard=loop_guard,
        masked_heads=masked_heads,
        rerank=rerank,
    )


def chosen_beam(parameters: TranslateParameters, settings: Settings) -> int:
    """Returns the beam width of the request, else of the settings; 0 for that of the model."""
    return parameters.beam_size or settings.beam_size or 0


def chosen_rows(beam_size: int, hypotheses: int, rerank: bool, on_flag: OnFlag) -> int:
    """Returns the rows of a sentence that a request itself chooses; `beam_size` 0 leaves the width
    to the server."""
    if not (beam_size or rerank) and hypotheses == 1 and on_flag != "retry":
        return 1
    beam = max(beam_size or 1, hypotheses)
    if rerank and not beam_size:
        beam = wider_beam(beam)
    options = DecodingOptions(beam_size=beam, hypotheses=hypotheses, rerank=rerank and beam > 1)
    return rows(TranslationRequest(texts=(), source="", target="", on_flag=on_flag), options)


def answer(
    parameters: TranslateParameters, translations: list[Translation], *, sources: Collection[str]
) -> dict[str, Any]:
    """Returns the body as in TranslateAnswer: plain values for one text, lists for a list.
    `sources` are the languages that the server translates from."""
    answers = [answer_to_text(parameters, translation, sources) for translation in translations]
    if isinstance(parameters.q, str):
        return answers[0]
    return {name: [text_answer[name] for text_answer in answers] for name in answers[0]}


def answer_to_text(
    parameters: TranslateParameters, translation: Translation, sources: Collection[str]
) -> dict[str, Any]:
    """Returns the values for one text. All texts of a request have the same fields."""
    values: dict[str, Any] = {"translatedText": translation.text, "id": translation.id}
    if translation.detected is not None:
        values["detectedLanguage"] = described(translation.detected)
    if parameters.alternatives > 0:
        values["alternatives"] = translation.alternatives
    if parameters.details:
        values["details"] = details(translation, sources)
    return values


def described(detected: DetectedLanguage) -> dict[str, Any]:
    """Returns a detected language, with alternatives only if it is unsure."""
    plain = {"language": detected.language, "confidence": detected.confidence}
    return plain | (
        {"alternatives": list(map(described, detected.alternatives))}
        if detected.alternatives
        else {}
    )


def details(translation: Translation, sources: Collection[str]) -> dict[str, Any]:
    """Returns the fields of TranslationDetails."""
    pivoted = len(translation.legs) > 1
    return {
        "route": [
            {
                name: getattr(leg, name)
                for name in ("model", "source", "target", "beam_size", "reranked")
            }
            for leg in translation.legs
        ],
        "pivot": translation.legs[0].target if pivoted else None,
        "sentences": [
            [sentence_details(sentence) for sentence in leg.sentences] for leg in translation.legs
        ],
        "warnings": [
            *unserved(translation.detected, sources),
            *[
                f"Sentence {number}{f' ({leg.source} to {leg.target})' if pivoted else ''}: "
                f"{WARNINGS[flag]}"
                for leg in translation.legs
                for number, sentence in enumerate(leg.sentences, start=1)
                for flag in flags(sentence)
            ],
        ],
        "timings": translation.timings,
    }


def unserved(detected: DetectedLanguage | None, sources: Collection[str]) -> list[str]:
    """Returns the warning about a text that was copied because its language is not in `sources`."""
    if detected is None or not detected.confidence or detected.language in sources:
        return []
    name = (
        f"{'perhaps ' if detected.confidence < UNSURE else ''}in {language_name(detected.language)}"
    )
    return [
        f"The text is {name} ({detected.language}), which no model here translates; it was copied."
    ]


def flags(sentence: Sentence) -> list[Flag]:
    return [flag for flag in WARNINGS if flag in sentence.flags] if sentence.flags else []


def sentence_details(sentence: Sentence) -> dict[str, Any]:
    return {
        "source": sentence.source,
        "target": sentence.targets[0],
        "read": sentence.read or sentence.source,
        "copied": sentence.copied,
        "tokens": len(sentence.ids),
        "flags": flags(sentence),
        "confidence": None if sentence.confidence is None else round(sentence.confidence, 3),
        "hypotheses": [
            {
                "text": text,
                "score": hypothesis.score,
                "token_scores": hypothesis.token_scores,
                "finish_reason": hypothesis.finish_reason,
            }
            for text, hypothesis in zip(sentence.targets, sentence.hypotheses, strict=False)
        ],
    }


def server_timing(translations: list[Translation]) -> str:
    """Returns the header Server-Timing: the longest time of a text in each part, in
    milliseconds."""
    queue, encode, decode, cached = 0.0, 0.0, 0.0, True
    for translation in translations:
        timings = translation.timings
        queue = max(queue, timings.queue)
        encode = max(encode, timings.encode)
        decode = max(decode, timings.decode)
        cached = cached and translation.cached
    hit = ', cache;desc="hit"' if cached else ""
    return (
        f"queue;dur={1000 * queue:.2f}, encode;dur={1000 * encode:.2f}, "
        f"decode;dur={1000 * decode:.2f}{hit}"
    )
