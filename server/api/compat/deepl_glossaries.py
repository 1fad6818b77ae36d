"""DeepL-compatible glossaries: of one language pair under /v2/glossaries, of several under
/v3/glossaries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import enter, json_response, services_of
from server.api.openapi import content
from server.api.parameters import ParameterRoute
from server.api.schemas.deepl import (
    DeeplCredentials,
    DictionaryPair,
    DictionaryParameters,
    GlossaryParameters,
    MultilingualChanges,
    MultilingualParameters,
)
from server.errors import Forbidden, InvalidRequest, NotFound
from server.glossaries.glossaries import Glossaries
from server.glossaries.types import (
    MEDIA_TYPES,
    Dictionary,
    DictionaryInfo,
    EntriesFormat,
    Glossary,
    base_language,
    read_entries,
    write_entries,
)

Id = Annotated[str, Path(description="From the answer to the creation.")]
Key = Annotated[DeeplCredentials, Query()]
Pair = Annotated[DictionaryPair, Query()]
router = APIRouter(tags=["DeepL"], route_class=ParameterRoute)
V2, V3 = "/v2/glossaries", "/v3/glossaries"


@router.post(V2, summary="Create a glossary", status_code=201)
async def create(request: Request, parameters: GlossaryParameters) -> Response:
    glossaries, owner = await entered(request, parameters, change=True)
    created = await glossaries.create(owner, parameters.name, [dictionary_of(parameters, request)])
    return json_response(single(created), 201)


@router.get(V2, summary="List glossaries of one language pair")
async def glossaries(request: Request, parameters: Key) -> Response:
    glossaries, owner = await entered(request, parameters)
    listed = [
        single(glossary)
        for glossary in await glossaries.all(owner)
        if len(glossary.dictionaries) == 1
    ]
    return json_response({"glossaries": listed})


@router.get(V2 + "/{glossary_id}", summary="Show a glossary")
async def glossary(glossary_id: Id, request: Request, parameters: Key) -> Response:
    glossaries, owner = await entered(request, parameters)
    return json_response(single(await glossaries.find(owner, glossary_id)))


@router.get(
    V2 + "/{glossary_id}/entries",
    summary="Fetch the entries of a glossary",
    response_class=Response,
    responses={200: content(*MEDIA_TYPES.values())},
)
async def entries(glossary_id: Id, request: Request, parameters: Key) -> Response:
    """As tab-separated values, or as CSV if the header `Accept` names it."""
    glossaries, owner = await entered(request, parameters)
    info = only_dictionary(await glossaries.find(owner, glossary_id))
    dictionary = await glossaries.dictionary(owner, glossary_id, info.source, info.target)
    format: EntriesFormat = (
        "csv" if MEDIA_TYPES["csv"] in request.headers.get("accept", "") else "tsv"
    )
    return Response(write_entries(dictionary.entries, format), media_type=MEDIA_TYPES[format])


@router.post(V3, summary="Create a glossary of several pairs", status_code=201)
async def create_multilingual(request: Request, parameters: MultilingualParameters) -> Response:
    glossaries, owner = await entered(request, parameters, change=True)
    dictionaries = [dictionary_of(entry, request) for entry in parameters.dictionaries]
    created = await glossaries.create(owner, parameters.name, dictionaries)
    return json_response(multilingual(created), 201)


@router.get(V3, summary="List all glossaries")
async def multilingual_glossaries(request: Request, parameters: Key) -> Response:
    glossaries, owner = await entered(request, parameters)
    return json_response(
        {"glossaries": [multilingual(glossary) for glossary in await glossaries.all(owner)]}
    )


@router.get(V3 + "/{glossary_id}", summary="Show any glossary")
async def multilingual_glossary(glossary_id: Id, request: Request, parameters: Key) -> Response:
    glossaries, owner = await entered(request, parameters)
    return json_response(multilingual(await glossaries.find(owner, glossary_id)))


@router.patch(V3 + "/{glossary_id}", summary="Rename a glossary, or add entries")
async def change(glossary_id: Id, request: Request, parameters: MultilingualChanges) -> Response:
    glossaries, owner = await entered(request, parameters, change=True)
    if parameters.name is None and not parameters.dictionaries:
        raise InvalidRequest("Name 'name' or 'dictionaries' to change.")
    if parameters.name is not None:
        await glossaries.rename(owner, glossary_id, parameters.name)
    for dictionary in parameters.dictionaries:
        await glossaries.put(owner, glossary_id, dictionary_of(dictionary, request), merge=True)
    return json_response(multilingual(await glossaries.find(owner, glossary_id)))


@router.put(V3 + "/{glossary_id}/dictionaries", summary="Replace a dictionary")
async def replace_dictionary(
    glossary_id: Id, request: Request, parameters: DictionaryParameters
) -> Response:
    glossaries, owner = await entered(request, parameters, change=True)
    dictionary = dictionary_of(parameters, request)
    await glossaries.put(owner, glossary_id, dictionary)
    return json_response(described(dictionary.info()))


@router.get(V3 + "/{glossary_id}/entries", summary="Fetch the entries of a pair")
async def dictionary_entries(glossary_id: Id, request: Request, parameters: Pair) -> Response:
    glossaries, owner = await entered(request, parameters)
    dictionary = await glossaries.dictionary(
        owner, glossary_id, parameters.source_lang, parameters.target_lang
    )
    body = {
        "source_lang": dictionary.source,
        "target_lang": dictionary.target,
        "entries_format": "tsv",
    }
    return json_response({"dictionaries": [body | {"entries": write_entries(dictionary.entries)}]})


@router.delete(V2 + "/{glossary_id}", summary="Delete a glossary", status_code=204)
@router.delete(V3 + "/{glossary_id}", summary="Delete any glossary", status_code=204)
async def delete(glossary_id: Id, request: Request, parameters: Key) -> Response:
    glossaries, owner = await entered(request, parameters, change=True)
    await glossaries.delete(owner, glossary_id)
    return Response(status_code=204)


@router.delete(V3 + "/{glossary_id}/dictionaries", summary="Delete a dictionary", status_code=204)
async def delete_dictionary(glossary_id: Id, request: Request, parameters: Pair) -> Response:
    glossaries, owner = await entered(request, parameters, change=True)
    await glossaries.remove(owner, glossary_id, parameters.source_lang, parameters.target_lang)
    return Response(status_code=204)


async def entered(
    request: Request, parameters: DeeplCredentials, change: bool = False
) -> tuple[Glossaries, str]:
    """Counts the request; returns the glossaries and the owner of the caller's. Raises Forbidden
    for a `change` without a key where keys exist."""
    services = services_of(request)
    caller = await enter(request, 0, parameters.auth_key)
    if change and caller.key is None and await services.authenticator.has_keys():
        raise Forbidden("Only callers with an API key have glossaries of their own here.")
    return services.glossaries, caller.owner


def dictionary_of(parameters: DictionaryParameters, request: Request) -> Dictionary:
    """Returns the dictionary of a request. Raises UnsupportedLanguage or InvalidRequest."""
    catalog = services_of(request).translator.catalog
    source, target = catalog.source(parameters.source_lang), catalog.target(parameters.target_lang)
    catalog.route(source, target)
    entries = read_entries(parameters.entries, parameters.entries_format)
    return Dictionary(base_language(source), base_language(target), entries, parameters.exact)


def only_dictionary(glossary: Glossary) -> DictionaryInfo:
    """Returns the dictionary of a glossary of one pair. Raises NotFound for others, as DeepL's /v2
    does."""
    if len(glossary.dictionaries) != 1:
        raise NotFound("The glossary has several language pairs; use /v3/glossaries.")
    return glossary.dictionaries[0]


def single(glossary: Glossary) -> dict[str, Any]:
    return head(glossary) | {"ready": True} | described(only_dictionary(glossary))


def multilingual(glossary: Glossary) -> dict[str, Any]:
    return head(glossary) | {"dictionaries": [described(info) for info in glossary.dictionaries]}


def head(glossary: Glossary) -> dict[str, Any]:
    created = datetime.fromtimestamp(glossary.created, UTC).isoformat(timespec="milliseconds")
    return {"glossary_id": glossary.id, "name": glossary.name, "creation_time": created}


def described(info: DictionaryInfo) -> dict[str, Any]:
    return {"source_lang": info.source, "target_lang": info.target, "entry_count": info.count}
