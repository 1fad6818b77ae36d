"""DeepL's dialect for files: sent, asked about, fetched once."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.search.options import DecodingOptions
from server.api import parameters
from server.api.compat.deepl import blank_as_none
from server.api.dependencies import enter, json_response, services_of
from server.api.routes.files import upload
from server.api.schemas import Code, Schema
from server.documents.service import translated_name
from server.errors import InvalidRequest, Unavailable
from server.translation.catalog import AUTO
from server.translation.types import TranslationRequest

router = APIRouter(prefix="/v2/document", tags=["DeepL dialect"])


class DocumentParameters(Schema):
    target_lang: Code = Field(examples=["DE"])
    source_lang: Annotated[Code | None, BeforeValidator(blank_as_none)] = Field(default=None, examples=["EN"])
    glossary_id: StrictStr | None = None
    auth_key: StrictStr | None = Field(default=None, max_length=512)


class DocumentKey(Schema):
    document_key: StrictStr = Field(max_length=256)
    auth_key: StrictStr | None = Field(default=None, max_length=512)


BODY = DocumentParameters.model_json_schema()
BODY["properties"]["file"] = {"type": "string", "format": "binary"}
BODY["required"] = ["file", "target_lang"]
UPLOAD: dict[str, Any] = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": BODY}}}}
KEY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": DocumentKey.model_json_schema()}}}
}


@router.post("", summary="Send a file to be translated, in DeepL's dialect", openapi_extra=UPLOAD)
async def send(request: Request) -> Response:
    services = services_of(request)
    content, name, fields = await upload(request)
    asked = parameters.validated(DocumentParameters, fields)
    if asked.glossary_id:
        raise InvalidRequest("This server has no glossaries; leave glossary_id out.")
    await enter(request, 0, asked.auth_key)  # reading a file is work already
    format, document = await services.documents.read(content, name, asked.target_lang)
    wanted = TranslationRequest(
        texts=(),
        source=asked.source_lang or AUTO,
        target=asked.target_lang,
        options=DecodingOptions(beam_size=services.settings.beam_size, loop_guard=True),
        client=await enter(request, document.characters, asked.auth_key, requests=0),
        deadline=parameters.deadline(request, services.settings.file_timeout_seconds),
    )
    catalog = services.translator.catalog
    target = catalog.target(asked.target_lang)
    if asked.source_lang:  # what cannot be served is said now, not when somebody asks how far it is
        catalog.route(catalog.source(asked.source_lang), target)
    work = services.documents.translate(document, wanted, patient=True)
    job = services.file_jobs.start(work, translated_name(name, target), format.media_type, document.characters)
    return json_response({"document_id": job.id, "document_key": job.key})


@router.post("/{document_id}", summary="How far a file is, in DeepL's dialect", openapi_extra=KEY)
async def status(document_id: str, request: Request) -> Response:
    asked = await parameters.read(request, DocumentKey)
    await enter(request, 0, asked.auth_key)
    job = services_of(request).file_jobs.find(document_id, asked.document_key)
    body: dict[str, Any] = {"document_id": job.id, "status": job.state}
    if job.state == "translating":
        body["seconds_remaining"] = 1
    elif job.state == "done":
        body["billed_characters"] = job.characters
    else:
        body["error_message"] = job.problem
    return json_response(body)


@router.post("/{document_id}/result", summary="Fetch a translated file, once, in DeepL's dialect", openapi_extra=KEY)
async def result(document_id: str, request: Request) -> Response:
    asked = await parameters.read(request, DocumentKey)
    await enter(request, 0, asked.auth_key)
    jobs = services_of(request).file_jobs
    job = jobs.find(document_id, asked.document_key)
    if job.state == "translating":
        raise Unavailable("The document is not ready yet.", 1)
    if job.state == "error":
        raise InvalidRequest(job.problem)
    content = job.work.result()
    jobs.forget(job)
    headers = {
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(job.name, safe='')}",
        "Content-Type": job.media_type,
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(content, headers=headers)
