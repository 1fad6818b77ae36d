"""Translations as JSON, for Redis."""

from __future__ import annotations

from typing import Any

import orjson

from model.search.options import Hypothesis
from server.engine.ipc.messages import Timings
from server.text.language_id import DetectedLanguage
from server.translation.types import Sentence, TranslatedLeg, Translation

Json = dict[str, Any]


def serialize(translation: Translation) -> bytes:
    """Returns a translation as JSON."""
    return orjson.dumps(translation, default=sorted)  # flags are a set


def deserialize(data: bytes) -> Translation:
    """Returns the translation of `serialize`'s JSON. Raises ValueError, TypeError or KeyError for anything else."""
    fields = orjson.loads(data)
    legs = tuple(
        [
            TranslatedLeg(**leg | {"sentences": tuple([_sentence(sentence) for sentence in leg["sentences"]])})
            for leg in fields["legs"]
        ]
    )
    detected = None if fields["detected"] is None else _language(fields["detected"])
    return Translation(**fields | {"alternatives": tuple(fields["alternatives"]), "detected": detected, "legs": legs})


def _sentence(fields: Json) -> Sentence:
    hypotheses = [
        Hypothesis(**one | {"tokens": tuple(one["tokens"]), "token_scores": tuple(one["token_scores"])})
        for one in fields["hypotheses"]
    ]
    first, last = fields["span"]
    return Sentence(
        **fields
        | {
            "span": (first, last),
            "ids": tuple(fields["ids"]),
            "targets": tuple(fields["targets"]),
            "hypotheses": tuple(hypotheses),
            "timings": Timings(**fields["timings"]),
            "to_read": _runs(fields["to_read"]),
            "to_target": _runs(fields["to_target"]),
            "flags": frozenset(fields["flags"]),
        }
    )


def _runs(runs: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple([(first, second, length) for first, second, length in runs])


def _language(fields: Json) -> DetectedLanguage:
    return DetectedLanguage(**fields | {"alternatives": tuple([_language(one) for one in fields["alternatives"]])})
