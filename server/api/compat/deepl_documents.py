"""DeepL-compatible files under /v2/document: upload, status, and one download of the result."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, File, Path
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import (
    enter,
    glossary_terms,
    json_response,
    services_of,
)
from server.api.early_refusal import REPEATED
from server.api.parameters import ParameterRoute
from server.api.routes.files import DOWNLOADED, document_request, file_response, stated, warned
from server.api.schemas.deepl import DocumentKey, DocumentParameters
from server.documents.formats import SUFFIXES, format_of
from server.errors import InvalidRequest, Unavailable
from server.translation.catalog import AUTO

router = APIRouter(prefix="/v2/document", tags=["DeepL"], route_class=ParameterRoute)
Id = Annotated[str, Path(description="From the answer to the upload.")]


@router.post("", name="translate_file", summary="Upload a file for translation")
async def send(request: Request, parameters: Annotated[DocumentParameters, File()]) -> Response:
    services, file = services_of(request), parameters.file
    name = file.filename or ""
    if not name.lower().endswith(SUFFIXES):
        raise InvalidRequest(
            f"Invalid file: its file extension must be one of {', '.join(SUFFIXES)}."
        )
    output = (
        parameters.output_format or name.rpartition(".")[2]
    )  # a caller that names none expects the format of the file
    format_of(name, output)
    # counted before the file is read, because reading takes time
    caller = await enter(request, 0, parameters.auth_key)
    glossary = await glossary_terms(
        request, caller, parameters.glossaries, parameters.source_lang, parameters.target_lang
    )
    services.translator.catalog.target(parameters.target_lang)
    try:
        document = await services.documents.receive(
            await file.read(),
            name,
            parameters.target_lang,
            caller.name,
            output,
            request.scope.get(REPEATED),
        )
    except InvalidRequest as error:
        raise type(error)(f"Invalid file: {error.message}") from None
    with ExitStack() as stack:
        stack.callback(services.documents.close, document)
        await enter(request, document.characters, parameters.auth_key, requests=0)
        pair = parameters.source_lang or AUTO, parameters.target_lang
        work = document_request(request, caller, pair, glossary, parameters.formality)
        if parameters.source_lang:  # rejects an unsupported pair now instead of in the status
            services.translator.catalog.route(
                work.source, work.target, work.formality, work.formality_required
            )
        id, key = await services.file_jobs.start(document, work)
        stack.pop_all()  # the job closes the document
    return json_response({"document_id": id, "document_key": key})


@router.post("/{document_id}", summary="Status of a file")
async def status(document_id: Id, request: Request, parameters: DocumentKey) -> Response:
    await enter(request, 0, parameters.auth_key)
    job = await services_of(request).file_jobs.find(document_id, parameters.document_key)
    body: dict[str, Any] = {"document_id": job["id"], "status": job["state"]}
    if job["state"] == "translating":
        body["seconds_remaining"] = 1
    elif job["state"] == "done":
        # a file that is no longer kept is a 410
        await services_of(request).documents.store.check(job["token"])
        body |= {"billed_characters": job["characters"]} | stated(job.get("warning", ""))
    else:
        body["error_message"] = job["problem"]
    return json_response(body, headers=warned(job.get("warning", "")))


@router.post(
    "/{document_id}/result", summary="Fetch a translated file, once", responses={200: DOWNLOADED}
)
async def result(document_id: Id, request: Request, parameters: DocumentKey) -> Response:
    await enter(request, 0, parameters.auth_key)
    jobs = services_of(request).file_jobs
    job = await jobs.find(document_id, parameters.document_key)
    if job["state"] == "translating":
        raise Unavailable("The document is not ready yet.", 1)
    if job["state"] == "error":
        raise InvalidRequest(job["problem"])
    response = file_response(await jobs.take(job))
    response.headers.update(warned(job.get("warning", "")))
    return response
