"""The formats of GET /attention (JSON, .npz, pictures, reports) and checks of their parameters."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import io
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.responses import Response

from model.analysis.head_roles import head_figures
from server.api.dependencies import json_response
from server.api.parameters import accepted_media
from server.api.schemas.attention import AttentionParameters, Format, Numbers
from server.errors import InvalidRequest
from server.inspection.attention_view import (
    WEIGHTS_LIMIT,
    MapView,
    ViewOptions,
    absent_kinds,
    select_maps,
    too_many_weights,
)
from server.inspection.pictures.picture import PictureFormat, picture
from server.inspection.text_alignment import align_words
from server.inspection.types import AlignmentMethod, InspectedSentence, InspectionResult, Tokens
from server.web.page import report, report_policy

MEDIA: dict[Format, str] = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
    "npz": "application/x-npz",
    "html": "text/html; charset=utf-8",
}
NEGOTIATED = tuple(media for format, media in MEDIA.items() if format != "html")
"""Media types that the header `Accept` chooses from without `format`."""
PICTURES: dict[Format, PictureFormat] = {"svg": "svg", "png": "png", "pdf": "pdf"}
PICTURE_FIELDS = ("view", "width", "theme", "title", "special", "query", "dpi")
"""Parameters of pictures only; `dpi` of a PNG only."""


def attention_query(parameters: AttentionParameters, accept: str) -> AttentionParameters:
    """Returns the parameters with the format that they or the header `accept` choose. Raises
    InvalidRequest."""
    format = parameters.format or negotiated_format(accept)
    _check_picture_fields(parameters, format)
    if parameters.measure == "effect" and format != "html":
        _check_effect(parameters, format)
    if format != "html":
        limited = parameters.measure == "weights" and parameters.head != "sum"
        bounded = limited or (format not in PICTURES and parameters.numbers != "uint16")
        scale = parameters.normalize if bounded or parameters.normalize != "none" else "max"
        return parameters.model_copy(update={"format": format, "normalize": scale})
    # A report has all maps; parameters that choose some have no effect.
    return parameters.model_copy(
        update=ViewOptions().model_dump() | {"figures": True, "numbers": "uint16"}
    )


def alignment_method(parameters: AttentionParameters) -> AlignmentMethod | None:
    """Returns the method of word alignment that an answer needs, None for an answer without one."""
    shown = parameters.format == "html" or parameters.view in ("alignment", "card")
    if not shown and parameters.format != "json":
        return None
    default: AlignmentMethod = "combined" if shown and not parameters.masked_heads else "attention"
    return parameters.alignment or default


def _check_effect(parameters: AttentionParameters, format: Format) -> None:
    """Raises InvalidRequest for options that the signed map of effects does not have."""
    options = ("layer", "head", "rollout", "normalize")
    option = next((name for name in options if name in parameters.model_fields_set), None)
    if option is not None or parameters.kind != "cross" or parameters.level != "word":
        raise InvalidRequest(
            "Effects are one map of words: give kind=cross and level=word, and no "
            f"{option or 'layer'}."
        )
    if format in PICTURES or parameters.numbers == "uint16":
        raise InvalidRequest(
            "Effects have a sign: give format=json with numbers=lists or float32, or format=npz."
        )


def _check_picture_fields(parameters: AttentionParameters, format: Format) -> None:
    fields = PICTURE_FIELDS if format not in PICTURES else () if format == "png" else ("dpi",)
    field = next((name for name in fields if name in parameters.model_fields_set), None)
    if field is not None:
        formats = "png" if field == "dpi" else "svg, png or pdf"
        raise InvalidRequest(f"{field} is for pictures; give format={formats} with it.")


def negotiated_format(accept: str) -> Format:
    media = accepted_media(accept, NEGOTIATED)
    return next(format for format, kind in MEDIA.items() if kind.startswith(media))


LOOP_WEIGHTS = 20_000
"""Weights that are written as JSON at once, in about a millisecond, because no other thread runs
meanwhile."""

PICTURE_POLICY = "default-src 'none'; img-src data:; frame-ancestors 'none'"
"""An SVG contains a large map as an image."""


def formatted(
    parameters: AttentionParameters, result: InspectionResult, encodings: str
) -> Response:
    """Returns the response in the format of the parameters. JSON is compressed where `encodings`,
    the header Accept-Encoding, has gzip. Takes up to a second: call it in a thread.

    Raises InvalidRequest for maps that the model does not have or that exceed a limit.
    """
    leg = result.subject.leg
    link = f'<model?source={leg.source}&target={leg.target}>; rel="describedby"'
    headers = {"Cache-Control": "private, no-cache", "Vary": "Accept", "Link": link}
    format = parameters.format or "json"
    match format:
        case "json":
            return json_in(encodings, attention_body(parameters, result), headers)
        case "npz":
            body = archive(result, chosen_maps(parameters, result))
        case "html":
            body = report(attention_body(parameters, result))
            headers |= {"Content-Security-Policy": report_policy()}
        case _:
            body = picture(result, parameters, PICTURES[format], result.masked_heads)
            headers |= {"Content-Security-Policy": PICTURE_POLICY}
    disposition = "inline" if format in PICTURES else "attachment"
    headers |= {"Content-Disposition": f'{disposition}; filename="attention.{format}"'}
    return Response(body, 200, headers, MEDIA[format])


def json_in(encodings: str, body: Any, headers: dict[str, str]) -> Response:
    """Returns a JSON response, in gzip where the header Accept-Encoding has it: maps in base64
    become smaller by 40 %."""
    response = json_response(body, headers=headers)
    if "gzip" in encodings:
        response.body = gzip.compress(response.body, 6)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept, Accept-Encoding"
        response.headers["Content-Length"] = str(len(response.body))
    return response


def chosen_maps(parameters: AttentionParameters, result: InspectionResult) -> list[MapView]:
    """Returns the chosen maps. Raises InvalidRequest if they exceed the limit on weights."""
    maps = select_maps(result, parameters)
    if (size := sum(view.weights.size for view in maps)) > WEIGHTS_LIMIT:
        raise too_many_weights(size)
    return maps


def subject_body(subject: InspectedSentence) -> dict[str, Any]:
    """Returns the fields of SubjectAnswer."""
    return {
        "id": subject.id,
        "model": subject.leg.model.name,
        "language": {"source": subject.leg.source, "target": subject.leg.target},
        "sentence": subject.sentence,
        "sentences": subject.sentences,
        "leg": subject.leg_number,
        "legs": subject.legs,
    }


def attention_body(parameters: AttentionParameters, result: InspectionResult) -> dict[str, Any]:
    """Returns the body as in AttentionAnswer. Maps are always [layer][head][query][key]."""
    subject = result.subject
    maps = chosen_maps(parameters, result)
    aligned = align_words(result)
    body: dict[str, Any] = {
        **subject_body(subject),
        "level": parameters.level,
        "source": text_pieces(result.source) | {"words": result.source.words},
        "target": text_pieces(result.target)
        | {
            "words": result.target.words,
            "scores": result.scores,
            "candidates": result.candidates,
            "outside": result.attention.maps.outside,
        },
        "exact": result.exact,
        "decoder_input": {
            "pieces": result.decoder_input.pieces,
            "words": result.decoder_input.words,
        },
        "alignment": dataclasses.asdict(aligned.chosen)
        | {
            "method": aligned.method,
            "links": aligned.links,
            "coverage": aligned.coverage,
            "weights": encoded(aligned.weights, "lists"),
        },
        "layers": {view.kind: view.layers for view in maps},
        "heads": {view.kind: view.heads for view in maps},
        "shapes": {view.kind: view.weights.shape for view in maps},
        **{view.kind: encoded(view.weights, parameters.numbers) for view in maps},
    }
    if absent := absent_kinds(result):
        body["absent"] = absent
    if (gates := result.attention.maps.forget_gates) is not None:
        body["forget_gates"] = gates
    if parameters.figures:
        body["figures"] = {
            view.kind: head_figures(result.maps(view.kind), view.kind) for view in maps
        }
    if (vectors := result.attention.maps.vectors) is not None:
        body["vectors"] = {"query": vectors.query, "key": vectors.key, "value": vectors.value}
    return body


def text_pieces(tokens: Tokens) -> dict[str, Any]:
    """Returns the fields of TextPieces."""
    return {"text": tokens.text, "pieces": tokens.pieces, "offsets": tokens.offsets}


def encoded(weights: NDArray[np.float32], form: Numbers) -> orjson.Fragment | str:
    """Returns weights (L, H, Q, K) for orjson: lists with five decimals, in which NaN is null, or
    base64."""
    if form == "lists":
        return lists(np.round(weights, 5))
    packed = weights.astype("<f4") if form == "float32" else np.rint(weights * 65535).astype("<u2")
    return base64.b64encode(packed.tobytes()).decode("ascii")


def lists(values: NDArray[np.float32]) -> orjson.Fragment:
    """Returns an array as JSON lists for orjson. What is not finite becomes null."""
    return orjson.Fragment(_json(values))


def _json(values: NDArray[np.float32]) -> bytes:
    if values.size <= LOOP_WEIGHTS:
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    if values[0].size > LOOP_WEIGHTS:
        parts = [_json(each) for each in values]
    else:
        step = max(1, LOOP_WEIGHTS // values[0].size)
        parts = [_json(values[first : first + step])[1:-1] for first in range(0, len(values), step)]
    return b"[" + b",".join(parts) + b"]"


def archive(result: InspectionResult, maps: list[MapView]) -> bytes:
    """Returns an .npz file of the maps and their labels, without pickled objects."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = {view.kind: view.weights for view in maps}
    for view in maps:
        arrays |= {
            f"{view.kind}_queries": np.array(view.queries),
            f"{view.kind}_keys": np.array(view.keys),
        }
    np.savez(stream, allow_pickle=False, scores=np.array(result.scores, dtype=np.float32), **arrays)
    return stream.getvalue()
