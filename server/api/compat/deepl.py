"""DeepL's dialect under /v2, as its official client libraries speak it.

What has no meaning here (formality, context, model_type and so on) is accepted and changes nothing; a glossary is
refused, as ignoring it would give a wrong translation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.search.options import DecodingOptions
from server.api import parameters
from server.api.compat.xml_tags import TagRules, mask
from server.api.dependencies import enter, header_key, json_response, services_of
from server.api.openapi import documented
from server.api.routes.translate import check_texts
from server.api.schemas import Code, Schema
from server.errors import InvalidRequest
from server.text.language_names import language_name
from server.text.segmentation import Split
from server.translation.catalog import AUTO
from server.translation.types import Translation, TranslationRequest

router = APIRouter(prefix="/v2", tags=["DeepL dialect"])

VARIANTS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-PT", "PT-BR")}
"""Languages that clients only know by region when they are translated into."""
UNLIMITED = 10**12
"""The character limit that DeepL itself states for accounts without one."""
SPLITS: dict[str, Split] = {"0": "none", "1": "all", "nonewlines": "punctuation"}


def shape(status: int, message: str) -> dict[str, object]:
    """How errors are written below /v2."""
    return {"message": message}


def _word(value: Any) -> Any:
    """A parameter that may come as a string, a number or a boolean, as a lower-case string; blank is absent."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value).strip().lower() or None if isinstance(value, str | int) else value


def _list(value: Any) -> Any:
    """A list, or a string with commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def blank_as_none(value: Any) -> Any:
    return None if value == "" else value


Tags = Annotated[list[Annotated[StrictStr, Field(max_length=256)]] | None, BeforeValidator(_list)]


class DeeplParameters(Schema):
    text: Annotated[list[StrictStr], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] = (
        Field(description="Texts to translate.", examples=[["Hello, world!"]])
    )
    target_lang: Code = Field(examples=["DE"])
    source_lang: Annotated[Code | None, BeforeValidator(blank_as_none)] = Field(default=None, examples=["EN"])
    split_sentences: Annotated[Literal["0", "1", "nonewlines"] | None, BeforeValidator(_word)] = Field(
        default=None, description="`0` takes each text as one sentence, `nonewlines` does not split at line ends."
    )
    tag_handling: Annotated[Literal["xml", "html"] | None, BeforeValidator(_word)] = None
    ignore_tags: Tags = Field(default=None, description="Elements whose content is not translated.")
    splitting_tags: Tags = Field(default=None, description="XML elements that end a sentence.")
    glossary_id: StrictStr | None = None
    auth_key: StrictStr | None = Field(default=None, max_length=512)


class DeeplTranslation(Schema):
    detected_source_language: str
    text: str
    billed_characters: int


class DeeplAnswer(Schema):
    translations: list[DeeplTranslation]


@router.get("/translate", include_in_schema=False)
@router.post("/translate", **documented("Translate texts, in DeepL's dialect", DeeplParameters, DeeplAnswer))
async def translate(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, DeeplParameters)
    if asked.glossary_id:
        raise InvalidRequest("This server has no glossaries; leave glossary_id out.")
    if not asked.text:
        raise InvalidRequest("Parameter 'text' not specified.")
    texts = tuple(asked.text)
    if any(texts):
        check_texts(texts, services.settings)
    client = await enter(request, sum(map(len, texts)), asked.auth_key)
    rules = TagRules(
        asked.tag_handling == "xml",
        frozenset(tag.lower() for tag in asked.ignore_tags or ()),
        frozenset(tag.lower() for tag in asked.splitting_tags or ()),
    )
    masks = [mask(text, rules) for text in texts] if asked.tag_handling else []
    wanted = TranslationRequest(
        texts=tuple(masked.text for masked in masks) or texts,
        source=asked.source_lang or AUTO,
        target=asked.target_lang,
        format="html" if asked.tag_handling else "text",
        split=SPLITS[asked.split_sentences or ("nonewlines" if asked.tag_handling else "1")],
        options=DecodingOptions(beam_size=services.settings.beam_size, loop_guard=True),
        client=client,
        deadline=parameters.deadline(request, services.settings.timeout_seconds),
    )
    done = await services.translator.translate(wanted)
    results = [translation.text for translation in done]
    if masks:
        results = [masked.restore(text, rules.xml) for masked, text in zip(masks, results, strict=True)]
    named = services.translator.catalog.source(asked.source_lang) if asked.source_lang else ""
    answers = [
        {"detected_source_language": source_code(translation, named), "text": result, "billed_characters": len(text)}
        for translation, result, text in zip(done, results, texts, strict=True)
    ]
    return json_response({"translations": answers})


@router.get("/languages", summary="List languages, in DeepL's dialect")
@router.post("/languages", include_in_schema=False)
async def languages(request: Request) -> Response:
    asked = await parameters.raw(request)  # the official client sends its parameter as the form of a GET
    kind = asked.get("type") or "source"
    if kind not in ("source", "target"):
        raise InvalidRequest("Parameter 'type' must be source or target.")
    await enter(request, 0, key_of(asked))
    catalog = services_of(request).translator.catalog
    if kind == "source":
        codes = [code.upper() for code in catalog.sources]
    else:
        goals = sorted({target for source in catalog.sources for target in catalog.targets(source)})
        codes = [code for goal in goals for code in target_codes(goal)]
    return json_response([{"language": code, "name": name_of(code), "supports_formality": False} for code in codes])


@router.get("/usage", summary="Characters sent with this key since the server started, in DeepL's dialect")
@router.post("/usage", include_in_schema=False)
async def usage(request: Request) -> Response:
    key = key_of(await parameters.raw(request)) or header_key(request)
    await enter(request, 0, key)
    services = services_of(request)
    used = services.rate_limiter.characters_used(services.authenticator.identify(key, ""))
    return json_response({"character_count": used, "character_limit": UNLIMITED})


@router.get("/glossary-language-pairs", summary="Pairs that glossaries are possible for: none")
async def glossary_language_pairs() -> Response:
    return json_response({"supported_languages": []})


@router.get("/glossaries", summary="Glossaries: none")
async def glossaries() -> Response:
    return json_response({"glossaries": []})


def key_of(asked: dict[str, Any]) -> str | None:
    """The key as a parameter, which old clients send."""
    key = asked.get("auth_key")
    return key if isinstance(key, str) and key else None


def source_code(translation: Translation, named: str) -> str:
    """The source language as DeepL writes it."""
    return (translation.detected.language if translation.detected else named).upper()


def target_codes(language: str) -> tuple[str, ...]:
    """The codes under which a language is offered as a target."""
    return VARIANTS.get(language.lower(), (language.upper(),))


def name_of(code: str) -> str:
    """The English name of a DeepL code."""
    base, _, region = code.partition("-")
    regional = language_name(f"{base.lower()}-{region}") if region else ""
    # Scripts are written Zh-Hans, regions pt-BR: whichever the table knows.
    scripted = language_name(f"{base.lower()}-{region.title()}") if region else ""
    plain = language_name(base.lower())
    return next((name for name in (regional, scripted) if name and name != plain), plain)
