"""The query of GET /attention as one validated object."""

from __future__ import annotations

from dataclasses import dataclass

from server.api.parameters import accepted_media
from server.api.schemas.attention import AttentionParameters, Format
from server.errors import InvalidRequest
from server.inspection.attention_view import KINDS, ViewOptions
from server.inspection.pictures.render import PictureFormat, PictureOptions
from server.inspection.types import InspectionOptions

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


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """A validated query. `deadline` is on the monotonic clock, in seconds."""

    parameters: AttentionParameters
    format: Format
    options: InspectionOptions
    deadline: float

    @property
    def view(self) -> ViewOptions:
        """The choice of maps."""
        kind = self.parameters.kind
        chosen = self.parameters.model_dump(include={"layer", "head", "level", "rollout", "normalize"})
        return ViewOptions(kinds=KINDS if kind == "all" else (kind,), **chosen)

    @property
    def picture(self) -> PictureOptions:
        """The options of a picture."""
        return PictureOptions(**self.parameters.model_dump(include=set(PICTURE_FIELDS)))


def attention_query(parameters: AttentionParameters, accept: str, deadline: float) -> AttentionQuery:
    """Returns the query; `accept` is the header that decides without `format`. Raises InvalidRequest."""
    format = parameters.format or negotiated_format(accept)
    _check_picture_fields(parameters, format)
    masked = parameters.masked_heads or ()
    shows_alignment = format == "html" or (format in PICTURES and parameters.view in ("alignment", "card"))
    method = parameters.alignment or ("combined" if shows_alignment and not masked else "attention")
    options = InspectionOptions(
        masked_heads=masked,
        vectors_of=next(iter(parameters.vectors or ()), None),
        align=method == "combined" and (shows_alignment or format == "json"),
    )
    if format == "html":  # a report has all maps; parameters that choose some have no effect
        chosen = ("kind", "layer", "head", "level", "rollout", "normalize", "vectors")
        whole = {name: getattr(AttentionParameters(), name) for name in chosen}
        parameters = parameters.model_copy(update=whole | {"figures": True, "numbers": "uint16"})
    return AttentionQuery(parameters, format, options, deadline)


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
