"""The query of GET /attention as one validated object, and its ETag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from starlette.requests import Request

from server.api.parameters import ParameterReader, accepted_media, merged, validated
from server.api.schemas.attention import AttentionParameters, Format
from server.errors import InvalidRequest
from server.inspection.attention_view import KINDS, ViewOptions
from server.inspection.pictures.render import PictureFormat, PictureOptions
from server.inspection.types import InspectionOptions
from server.services import Services
from server.translation.cache.keys import KEYED_SETTINGS
from server.version import server_version

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
REPORT_FIELDS = {
    "id",
    "q",
    "source",
    "target",
    "translation",
    "sentence",
    "leg",
    "masked_heads",
    "beam_size",
    "alignment",
    "hypothesis",
    "prefix",
}
"""Parameters that a report depends on. It contains all maps, so the parameters of a view have no effect."""
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
        parameters = self.parameters
        return ViewOptions(
            kinds=KINDS if parameters.kind == "all" else (parameters.kind,),
            layer=parameters.layer,
            head=parameters.head,
            level=parameters.level,
            rollout=parameters.rollout,
            normalize=parameters.normalize,
        )

    @property
    def picture(self) -> PictureOptions:
        """The options of a picture."""
        parameters = self.parameters
        return PictureOptions(
            view=parameters.view,
            width=parameters.width,
            dpi=parameters.dpi,
            theme=parameters.theme or "light",
            title=parameters.title,
            special=parameters.special is not False,
            query=parameters.query,
        )


class AttentionReader(ParameterReader[AttentionParameters]):
    """Reads the parameters. Returns None if a browser requests the explorer, which is free."""

    async def __call__(self, request: Request) -> AttentionParameters | None:  # type: ignore[override]
        """Raises InvalidRequest or UnsupportedMediaType."""
        values = await merged(request)
        media = accepted_media(request.headers.get("accept", ""), ("application/json", "text/html"))
        return None if media == "text/html" and "format" not in values else validated(self.model, values)


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
    if format == "html":
        kept = {name: getattr(parameters, name) for name in REPORT_FIELDS}
        changes = {"format": format, "figures": True, "numbers": "uint16"}
        parameters = AttentionParameters().model_copy(update=kept | changes)
    return AttentionQuery(parameters, format, options, deadline)


def _check_picture_fields(parameters: AttentionParameters, format: Format) -> None:
    """Raises InvalidRequest for a parameter that this format does not have."""
    fields = PICTURE_FIELDS if format not in PICTURES else () if format == "png" else ("dpi",)
    given = next((name for name in fields if getattr(parameters, name) is not None), None)
    if given is not None:
        formats = "png" if given == "dpi" else "svg, png or pdf"
        raise InvalidRequest(f"{given} is for pictures; give format={formats} with it.")


def negotiated_format(accept: str) -> Format:
    """Returns the format for a request without the parameter `format`."""
    media = accepted_media(accept, NEGOTIATED)
    return next(format for format, kind in MEDIA.items() if kind.startswith(media))


def etag(query: AttentionQuery, services: Services) -> str:
    """Returns the weak ETag of the answer without computing the answer: the id of a new translation differs each time.

    Otherwise an answer is a function of the query, the served models, the settings of the search, and how the workers
    compute: device, number format, decode path and instruction set. The ETag is a digest of these and of the server's
    version.
    """
    status = services.engine.status()
    models = sorted(model.key for model in services.translator.catalog.models)
    settings = [getattr(services.settings, name) for name in ("beam_size", "rerank", *KEYED_SETTINGS)]
    state = (
        query.parameters,
        query.format,
        query.options,
        models,
        settings,
        status.device,
        status.dtype,
        status.engine,
        sorted(status.details.items()),
        server_version(),
    )
    return f'W/"{hashlib.sha256(repr(state).encode("utf-8", "replace")).hexdigest()[:32]}"'
