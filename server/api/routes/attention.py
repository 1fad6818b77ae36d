"""GET /attention: the weights behind a translation as numbers, pictures or a report."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import io
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Depends
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.search.options import DecodingOptions
from server.api import parameters
from server.api.dependencies import caller, counted, json_response, services_of, wants_page
from server.api.negotiation import preferred
from server.api.openapi import documented_query
from server.api.routes.pages import page
from server.api.routes.translate import check_texts
from server.api.schemas import OptionalInt, Schema
from server.errors import InvalidRequest
from server.inspection.attention_view import (
    KINDS,
    MapView,
    SentenceWords,
    ViewOptions,
    align_words,
    head_statistics,
    select_maps,
    split_words,
)
from server.inspection.heatmap import render_heatmap
from server.inspection.inspector import InspectedSentence, InspectionOptions, InspectionResult, Token
from server.inspection.json_weights import in_unit_interval, nested_lists
from server.translation.types import TranslationRequest
from server.web import html_report as reports

router = APIRouter(tags=["look inside"], dependencies=[Depends(counted)])
Format = Literal["json", "npz", "svg", "png", "html"]
MEDIA: dict[Format, str] = {
    "json": "application/json",
    "npz": "application/x-npz",
    "svg": "image/svg+xml",
    "png": "image/png",
    "html": "text/html; charset=utf-8",
}
WEIGHTS_LIMIT = 8_000_000
"""Weights in one answer written as numbers: about 100 MB of JSON."""
MASK_LIMIT = 4096


class AttentionParameters(Schema):
    id: StrictStr | None = Field(default=None, max_length=64, description="Id of a translation that was served.")
    q: StrictStr | None = Field(
        default=None, description="Text to look at, instead of an id.", examples=["The cat sleeps."]
    )
    source: StrictStr | None = Field(
        default=None, max_length=32, description="Language of q, or `auto`.", examples=["en"]
    )
    target: StrictStr | None = Field(default=None, max_length=32, description="Language to look into.", examples=["de"])
    translation: StrictStr | None = Field(default=None, description="A translation of q, instead of the model's own.")
    sentence: int = Field(default=0, ge=0, description="Which sentence of the text, counted from 0.")
    leg: int = Field(default=0, ge=0, description="Which step of a way through a pivot language, counted from 0.")
    kind: Literal["cross", "encoder", "decoder", "all"] = Field(default="all", description="Which maps.")
    layer: Annotated[int | Literal["all"], BeforeValidator(parameters.number_or_word)] = Field(
        default="all", description="One layer, counted from 0, or `all`."
    )
    head: Annotated[int | Literal["all", "mean", "max"], BeforeValidator(parameters.number_or_word)] = Field(
        default="all", description="One head, counted from 0, `mean` or `max` over the heads, or `all`."
    )
    level: Literal["piece", "word"] = Field(
        default="piece", description="`word` sums weights over a key's pieces and averages them over a query's."
    )
    rollout: bool = Field(default=False, description="Attention rollout in place of heads: one map per layer.")
    normalize: Literal["none", "row", "max"] = Field(
        default="none", description="`row`: every query's weights sum to 1; `max`: a map's largest weight is 1."
    )
    figures: bool = Field(default=False, description="Add entropy, diagonality and role of every head.")
    numbers: Literal["lists", "float32", "uint16"] = Field(
        default="lists",
        description="How JSON holds weights: nested lists of five decimals, or base64 of little-endian float32, or of "
        "uint16 (65535 w).",
    )
    masked_heads: StrictStr | None = Field(
        default=None,
        max_length=MASK_LIMIT,
        description="Heads to switch off, kind.layer.head each, separated by commas.",
        examples=["cross.0.1,encoder.2.3"],
    )
    vectors: StrictStr | None = Field(
        default=None,
        max_length=32,
        description="A head, kind.layer.head: add its queries, keys and values to the JSON.",
        examples=["cross.0.1"],
    )
    alignment: Literal["combined", "attention"] | None = Field(
        default=None,
        description="How words are aligned: `attention` takes what each word attended to most; `combined` also asks the "
        "model which words fit, where it translates both ways: far more exact, some milliseconds. A report has `combined` "
        "unless heads are switched off, everything else `attention`.",
    )
    beam_size: OptionalInt = Field(default=None, ge=1, le=32, description="Beam width for q.")
    format: Format | None = Field(
        default=None,
        description="`json`, `npz`, a picture (`svg`, `png`), or `html`, a report in one file. Without it `Accept` decides; "
        "a browser gets the explorer.",
    )


@router.get(
    "/attention",
    **documented_query(
        "Attention behind a translation", AttentionParameters, also=[kind.split(";")[0] for kind in MEDIA.values()][1:]
    ),
)
async def attention(request: Request) -> Response:
    query = parameters.pairs(request.scope["query_string"])
    if wants_page(request, query):
        return page(request)
    asked = parameters.validated(AttentionParameters, query)
    format = asked.format or chosen_format(request.headers.get("accept", ""))
    found = await inspect(asked, format, request)
    tag = etag(asked, format, found)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Accept"}
    if tag in [given.strip() for given in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    return await written(asked, format, found, headers)


def chosen_format(accept: str) -> Format:
    """The format for a request that names none."""
    media = preferred(accept, ("application/json", "image/svg+xml", "image/png", "application/x-npz"))
    return next(format for format, kind in MEDIA.items() if kind.startswith(media))


async def inspect(asked: AttentionParameters, format: Format, request: Request) -> InspectionResult:
    """The one sentence that the parameters point at, with its maps. Raises InvalidRequest where they point at
    nothing."""
    services = services_of(request)
    deadline = parameters.deadline(request, services.settings.timeout_seconds)
    masked = parameters.head_mask(asked.masked_heads)
    method = asked.alignment or ("combined" if format == "html" and not masked else "attention")
    options = InspectionOptions(
        masked_heads=masked,
        vectors_of=next(iter(parameters.head_mask(asked.vectors)), None),
        align=method == "combined" and format in ("json", "html"),
    )
    subject = await subject_of(asked, masked, deadline, request)
    return await services.inspector.attend(subject, options, deadline)


async def subject_of(
    asked: AttentionParameters, masked: tuple[tuple[str, int, int], ...], deadline: float | None, request: Request
) -> InspectedSentence:
    """Returns the sentence pair that the parameters select. Raises InvalidRequest where they select none."""
    services = services_of(request)
    if asked.id is not None:
        return await services.inspector.find(asked.id, sentence=asked.sentence, leg=asked.leg)
    if asked.q is None or asked.source is None or asked.target is None:
        raise InvalidRequest("Give either id, or q with source and target.")
    check_texts((asked.q,), services.settings)
    if asked.translation is not None:
        check_texts((asked.translation,), services.settings)
        return services.inspector.given(asked.q, asked.translation, asked.source, asked.target)
    wanted = TranslationRequest(
        texts=(asked.q,),
        source=asked.source,
        target=asked.target,
        options=DecodingOptions(
            beam_size=asked.beam_size or services.settings.beam_size, masked_heads=masked, loop_guard=True
        ),
        client=caller(request),
        deadline=deadline,
    )
    return await services.inspector.translate(wanted, sentence=asked.sentence, leg=asked.leg)


async def written(asked: AttentionParameters, format: Format, found: InspectionResult, headers: dict[str, str]) -> Response:
    """The answer in its format. Pictures and reports are made in a thread, so that nobody else waits for them."""
    match format:
        case "json":
            return json_response(answer(asked, found), headers=headers)
        case "npz":
            body = await asyncio.to_thread(archive, found, shown(asked, found, split_words(found)))
        case "html":
            body = await asyncio.to_thread(reports.report, answer(report_parameters(asked), found))
            headers |= {"Content-Security-Policy": reports.policy()}
        case _:
            title = f"{found.source_text}  \u2192  {found.target_text}"
            body = await asyncio.to_thread(render_heatmap, shown(asked, found, split_words(found)), format, title)
    name = f"attention.{format}"
    headers |= {"Content-Disposition": f'{"inline" if format in ("svg", "png") else "attachment"}; filename="{name}"'}
    return Response(body, 200, headers, MEDIA[format])


def etag(asked: AttentionParameters, format: Format, found: InspectionResult) -> str:
    """Changes whenever the answer does: the weights, the texts, and how they are to be shown."""
    digest = hashlib.sha256(repr((asked, format, found.source_text, found.target_text)).encode("utf-8", "replace"))
    for part in (found.attention.maps.cross, found.attention.maps.encoder, found.attention.maps.decoder):
        digest.update(part.data)
    return f'"{digest.hexdigest()[:32]}"'


def shown(asked: AttentionParameters, found: InspectionResult, words: SentenceWords) -> list[MapView]:
    """The maps asked for. Raises InvalidRequest where they are too many to write down."""
    options = ViewOptions(
        kinds=KINDS if asked.kind == "all" else (asked.kind,),
        layer=asked.layer,
        head=asked.head,
        level=asked.level,
        rollout=asked.rollout,
        normalize=asked.normalize,
    )
    maps = select_maps(found, options, words)
    if (size := sum(view.weights.size for view in maps)) > WEIGHTS_LIMIT:
        raise InvalidRequest(f"{size:,} weights are over the limit of {WEIGHTS_LIMIT:,}; choose a kind, layer or head.")
    return maps


def report_parameters(asked: AttentionParameters) -> AttentionParameters:
    """A report holds everything, whatever one view of it was asked for."""
    kept = {"id", "q", "source", "target", "translation", "sentence", "leg", "masked_heads", "beam_size", "alignment"}
    return AttentionParameters(**asked.model_dump(include=kept), figures=True, numbers="uint16")


def answer(asked: AttentionParameters, found: InspectionResult) -> dict[str, Any]:
    """The body of a 200. Maps are nested lists [layer][head][query][key], also where one layer or head was chosen."""
    words = split_words(found)
    maps = shown(asked, found, words)
    kinds = [view.kind for view in maps]
    aligned = align_words(found, words)
    body: dict[str, Any] = {
        "id": found.subject.id,
        "model": found.subject.leg.model.name,
        "language": {"source": found.subject.leg.source, "target": found.subject.leg.target},
        "sentence": found.subject.sentence,
        "sentences": found.subject.sentences,
        "leg": found.subject.leg_number,
        "legs": found.subject.legs,
        "level": asked.level,
        "source": side(found.source_text, found.source) | {"words": words.source},
        "target": side(found.target_text, found.target)
        | {"words": words.target, "scores": found.scores, "candidates": found.candidates},
        "decoder_input": {"pieces": [token.piece for token in found.decoder_input], "words": words.decoder_input},
        "alignment": dataclasses.asdict(aligned.choice)
        | {"method": aligned.method, "links": aligned.links, "coverage": aligned.coverage},
        "layers": {view.kind: view.layers for view in maps},
        "heads": {view.kind: view.heads for view in maps},
        "shapes": {view.kind: view.weights.shape for view in maps},
        **{view.kind: numbers(view.weights, asked.numbers) for view in maps},
    }
    if asked.figures:
        body["figures"] = head_statistics(found, kinds)
    if (vectors := found.attention.maps.vectors) is not None:
        body["vectors"] = {"query": vectors.query, "key": vectors.key, "value": vectors.value}
    return body


def side(text: str, tokens: tuple[Token, ...]) -> dict[str, Any]:
    """A sentence with its pieces and their places (start, end) in characters of the sentence."""
    return {
        "text": text,
        "pieces": [token.piece for token in tokens],
        "offsets": [(token.start, token.end) for token in tokens],
    }


def numbers(
    weights: NDArray[np.float32], form: Literal["lists", "float32", "uint16"]
) -> orjson.Fragment | NDArray[np.float32] | str:
    if form == "lists":  # what a broken model computes may be no number: null
        return orjson.Fragment(nested_lists(weights)) if in_unit_interval(weights) else weights
    packed = weights.astype("<f4") if form == "float32" else np.rint(weights * 65535).astype("<u2")
    return base64.b64encode(packed.tobytes()).decode("ascii")


def archive(found: InspectionResult, maps: list[MapView]) -> bytes:
    """An .npz of the maps with their labels; opens without pickle."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = {view.kind: view.weights for view in maps}
    for view in maps:
        arrays |= {f"{view.kind}_queries": np.array(view.queries), f"{view.kind}_keys": np.array(view.keys)}
    np.savez(stream, allow_pickle=False, scores=np.array(found.scores, dtype=np.float32), **arrays)
    return stream.getvalue()
