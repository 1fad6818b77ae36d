"""Checks of the parameters of GET /attention that depend on the format."""

from __future__ import annotations

from server.api.parameters import accepted_media
from server.api.schemas.attention import AttentionParameters, Format
from server.errors import InvalidRequest
from server.inspection.attention_view import ViewOptions
from server.inspection.pictures.convert import PictureFormat

MEDIA: dict[Format, str] = {
    "json": "application/json",
    "npz": "application/x-npz",
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
    "html": "text/html; charset=utf-8",
}
NEGOTIATED = ("application/json", "image/svg+xml", "image/png", "application/pdf", "application/x-npz")
"""Media types that the header `Accept` chooses from, for requests without `format`."""
PICTURES: dict[Format, PictureFormat] = {"svg": "svg", "png": "png", "pdf": "pdf"}
PICTURE_FIELDS = ("view", "width", "theme", "title", "special", "query", "dpi")
"""Parameters that only pictures have; `dpi` only a PNG."""


def attention_query(parameters: AttentionParameters, accept: str) -> AttentionParameters:
    """Returns the parameters with their format; `accept` is the header that decides it. Raises InvalidRequest."""
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
    return parameters.model_copy(update=ViewOptions().model_dump() | {"figures": True, "numbers": "uint16"})


def needs_evidence(parameters: AttentionParameters) -> bool:
    """Returns whether an answer needs the evidence of the word alignment."""
    format = parameters.format
    shows_alignment = format == "html" or (format in PICTURES and parameters.view in ("alignment", "card"))
    method = parameters.alignment or ("combined" if shows_alignment and not parameters.masked_heads else "attention")
    return method == "combined" and (shows_alignment or format == "json")


def _check_effect(parameters: AttentionParameters, format: Format) -> None:
    """Raises InvalidRequest for options that the one map of effects, which has a sign, does not have."""
    options = ("layer", "head", "rollout", "normalize")
    given = next((name for name in options if name in parameters.model_fields_set), None)
    if given is not None or parameters.kind != "cross" or parameters.level != "word":
        raise InvalidRequest(
            f"Effects are one map of words: give kind=cross and level=word, and no {given or 'layer'}."
        )
    if format in PICTURES or parameters.numbers == "uint16":
        raise InvalidRequest("Effects have a sign: give format=json with numbers=lists or float32, or format=npz.")


def _check_picture_fields(parameters: AttentionParameters, format: Format) -> None:
    """Raises InvalidRequest for a parameter that this format does not have."""
    fields = PICTURE_FIELDS if format not in PICTURES else () if format == "png" else ("dpi",)
    given = next((name for name in fields if name in parameters.model_fields_set), None)
    if given is not None:
        formats = "png" if given == "dpi" else "svg, png or pdf"
        raise InvalidRequest(f"{given} is for pictures; give format={formats} with it.")


def negotiated_format(accept: str) -> Format:
    """Returns the format for a request without the parameter `format`."""
    media = accepted_media(accept, NEGOTIATED)
    return next(format for format, kind in MEDIA.items() if kind.startswith(media))
