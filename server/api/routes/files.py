"""POST /translate_file and GET /download_file/TOKEN/NAME."""

from __future__ import annotations

import contextlib
import os
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, File, Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from server.access.authentication import Caller
from server.api.dependencies import (
    deadline,
    enter,
    inline_or_stored,
    json_response,
    services_of,
    translation_request,
)
from server.api.early_refusal import REPEATED
from server.api.openapi import WORK, content, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.base import (
    FORMALITY,
    Answer,
    Code,
    Formality,
    InlineGlossary,
    Key,
    OptionalText,
    UploadParameters,
    address_form,
)
from server.documents.formats import SUFFIXES, format_of
from server.documents.store import StoredFile
from server.errors import InvalidRequest
from server.text.glossary import TermIndex
from server.translation.types import TranslationRequest

router = APIRouter(tags=["files"], route_class=ParameterRoute)
DOWNLOAD = "/download_file"
PORTS = (None, 80, 443)
"""Default ports, which an address does not name."""
DOWNLOADED = content("application/octet-stream")


class FileParameters(UploadParameters):
    source: Code = Field(description="Language of the file, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    api_key: Key = None
    glossary: InlineGlossary = Field(
        default=None,
        description="Terms with their translations: the id of a glossary, or pairs as JSON.",
    )
    formality: Formality = Field(default=None, description=FORMALITY)
    output_format: OptionalText = Field(
        default=None,
        description="Format of the translated file: that of the file, or `html` for a PDF.",
    )


class FileAnswer(Answer):
    translatedFileUrl: str = Field(
        description="Address of the translated file, valid for a limited time."
    )
    warning: str | None = Field(
        default=None, description="Also in the header `X-Warning`: no text was translated."
    )


@router.post(
    "/translate_file",
    summary="Translate a file",
    description=f"The file is one of {', '.join(SUFFIXES)}.",
    response_model=FileAnswer,
    responses=errors(404, *WORK),
)
async def translate_file(
    request: Request, parameters: Annotated[FileParameters, File()]
) -> Response:
    services = services_of(request)
    documents, file = services.documents, parameters.file
    # counted before the file is read, because reading takes time
    caller = await enter(request, 0, parameters.api_key)
    if not (file.filename or "").lower().endswith(SUFFIXES):
        raise InvalidRequest("Invalid request: file format not supported")
    output = parameters.output_format or ""
    format_of(file.filename or "", output)
    glossary = await inline_or_stored(
        request, caller, parameters.glossary, parameters.source, parameters.target
    )
    name, content = file.filename or "", await file.read()
    document = await documents.receive(
        content, name, parameters.target, caller.name, output, request.scope.get(REPEATED)
    )
    try:
        await enter(request, document.characters, parameters.api_key, requests=0)
        pair = parameters.source, parameters.target
        work = document_request(request, caller, pair, glossary, parameters.formality)
        made = await documents.translate(document, work)
    finally:
        documents.close(document)
    address = f"{services.settings.public_url.rstrip('/') or own_address(request)}{DOWNLOAD}"
    body = {"translatedFileUrl": f"{address}/{made.token}/{quote(document.name, safe='')}"}
    return json_response(body | stated(made.warning), headers=warned(made.warning))


def document_request(
    request: Request,
    caller: Caller,
    pair: tuple[str, str],
    glossary: TermIndex | None,
    formality: str | None,
) -> TranslationRequest:
    """Returns the request for all texts of a document from one language to another."""
    limit = services_of(request).settings.file_timeout_seconds
    return translation_request(
        request,
        caller,
        texts=(),
        source=pair[0],
        target=pair[1],
        deadline=deadline(request, limit),
        glossary=glossary,
        **address_form(formality),
    )


def own_address(request: Request) -> str:
    """Returns the address that the client has connected to, whatever the header `Host` says."""
    host, port = request.scope.get("server") or ("localhost", None)
    scheme, root = request.scope["scheme"], request.scope.get("root_path", "")
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}{root}" if port in PORTS else f"{scheme}://{named}:{port}{root}"


@router.get(
    DOWNLOAD + "/{token}/{name}",
    summary="Fetch a translated file",
    response_class=FileResponse,
    responses=errors(404, 410) | {200: DOWNLOADED},
)
async def download_file(
    token: Annotated[str, Path(description="From `translatedFileUrl`.")],
    name: Annotated[str, Path(description="Any name; the file has its own.")],
    request: Request,
) -> Response:
    return file_response(await services_of(request).documents.store.find(token))


def stated(warning: str) -> dict[str, str]:
    """Returns the warning about a translated file as a field."""
    return {"warning": warning} if warning else {}


def warned(warning: str) -> dict[str, str]:
    """Returns the warning about a translated file as a header."""
    return {"X-Warning": warning} if warning else {}


class FetchedOnce(FileResponse):
    """Sends a file and deletes it. A background task would be cancelled with the request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)  # noqa: PTH108  pathlib is refused in a coroutine


def file_response(file: StoredFile) -> Response:
    """Returns a translated file as an attachment in a sandbox: translated HTML must not run as a
    page of this server."""
    ascii_name = quote(file.name)
    name = (
        f'filename="{file.name}"' if ascii_name == file.name else f"filename*=utf-8''{ascii_name}"
    )
    headers = {
        "Cache-Control": "private, no-store",
        "Content-Disposition": f"attachment; {name}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Content-Type": file.media_type,  # set here because Starlette would add a charset
    }
    if isinstance(file.content, bytes):
        return Response(file.content, headers=headers)
    return (FetchedOnce if file.once else FileResponse)(file.content, headers=headers)
