"""POST /translate_file and what it leads to: files in, files out."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter
from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from model.search.options import DecodingOptions
from server.api import parameters
from server.api.dependencies import enter, json_response, services_of
from server.api.openapi import ERRORS
from server.api.schemas import Code, ErrorAnswer, Key, Schema
from server.documents.formats import SUFFIXES
from server.documents.service import translated_name
from server.errors import InvalidRequest, UnsupportedMediaType
from server.translation.types import TranslationRequest

router = APIRouter(tags=["files"])
DOWNLOAD = "/download_file"


class FileParameters(Schema):
    source: Code = Field(description="Language of the file, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    api_key: Key = None


class FileAnswer(Schema):
    translatedFileUrl: Annotated[str, Field(description="Where to fetch the translated file, for a limited time.")]


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text} for status, text in ERRORS.items()
}
RESPONSES[200] = {"model": FileAnswer}
BODY = FileParameters.model_json_schema()
BODY["properties"]["file"] = {"type": "string", "format": "binary", "description": f"One of {', '.join(SUFFIXES)}."}
BODY["required"] = ["file", "source", "target"]


@router.post(
    "/translate_file",
    summary="Translate a file",
    response_model=None,
    responses=RESPONSES,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": BODY}}}},
)
async def translate_file(request: Request) -> Response:
    services = services_of(request)
    content, name, fields = await upload(request)
    asked = parameters.validated(FileParameters, fields)
    await enter(request, 0, asked.api_key)  # reading a file is work already
    format, document = await services.documents.read(content, name, asked.target)
    wanted = TranslationRequest(
        texts=(),
        source=asked.source,
        target=asked.target,
        options=DecodingOptions(beam_size=services.settings.beam_size, loop_guard=True),
        client=await enter(request, document.characters, asked.api_key, requests=0),
        deadline=parameters.deadline(request, services.settings.file_timeout_seconds),
    )
    made = await services.documents.translate(document, wanted)
    name = translated_name(name, services.translator.catalog.target(asked.target))
    token = services.documents.store.save(made, name, format.media_type)
    return json_response({"translatedFileUrl": f"{request.base_url}{DOWNLOAD[1:]}/{token}/{quote(name, safe='')}"})


@router.get(DOWNLOAD + "/{token}/{name}", summary="Fetch a translated file", response_class=FileResponse)
async def download_file(token: str, name: str, request: Request) -> Response:
    found = services_of(request).documents.store.find(token)
    # Never shown in the browser: a translated page must not run as a page of this server.
    headers = {
        "Cache-Control": "private, no-store",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Content-Type": found.media_type,  # as it is: the file's encoding is its own
    }
    return FileResponse(found.path, filename=found.name, headers=headers)


async def upload(request: Request) -> tuple[bytes, str, dict[str, object]]:
    """Content and name of the one file of a form, and the form's other fields."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise UnsupportedMediaType("Send the file as multipart/form-data.")
    async with request.form(max_files=1, max_fields=100) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            raise InvalidRequest("Invalid request: missing file parameter.")
        fields = parameters.gathered([(name, value) for name, value in form.multi_items() if isinstance(value, str)])
        return await file.read(), file.filename, fields
