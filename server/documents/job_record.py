"""The record of a job, from which another server continues it, as JSON in Redis."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import orjson

from model.search.options import DecodingOptions
from server.documents.service import ReceivedDocument
from server.text.glossary import Entry, TermIndex
from server.translation.types import TranslationRequest

LEFT_OUT = frozenset({"texts", "deadline"})
"""Fields of a request that a job does not keep: the file has the texts, and the time begins again."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The name of the uploaded file, the target as its sender wrote it, and the options of the request."""

    name: str
    request: TranslationRequest


def serialize(document: ReceivedDocument, request: TranslationRequest) -> bytes:
    """Returns the record of a document as JSON."""
    values: dict[str, Any] = {
        one.name: getattr(request, one.name) for one in fields(request) if one.name not in LEFT_OUT | {"glossary"}
    }
    if (terms := request.glossary) is not None:
        values["glossary"] = {"entries": terms.entries, "any_case": terms.any_case}
    return orjson.dumps({"name": document.uploaded_name, "request": values})


def deserialize(data: bytes) -> JobRecord:
    """Returns the record of `serialize`'s JSON."""
    found = orjson.loads(data)
    values = found["request"]
    options = {name: _tuples(value) for name, value in values["options"].items()}
    values |= {
        "options": DecodingOptions(**options),
        "accepted": tuple(values["accepted"]),
        "do_not_translate": tuple(values["do_not_translate"]),
    }
    if terms := values.get("glossary"):
        values["glossary"] = TermIndex([Entry(**entry) for entry in terms["entries"]], terms["any_case"])
    return JobRecord(found["name"], TranslationRequest(texts=(), **values))


def _tuples(value: Any) -> Any:
    return tuple([_tuples(one) for one in value]) if isinstance(value, list) else value
