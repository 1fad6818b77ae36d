"""Converts a translation to the record that the history keeps."""

from __future__ import annotations

import time
from collections.abc import Sequence

from server.history.records import LegRecord, SentenceRecord, TranslationRecord
from server.translation.types import Sentence, Translation


def history_record(translation: Translation) -> TranslationRecord:
    """Returns the record of a translation: the token ids of every sentence, without the translated text."""
    legs = [LegRecord(leg.key, leg.source, leg.target, _records(leg.sentences)) for leg in translation.legs]
    return TranslationRecord(translation.id, time.time(), tuple(legs))


def _records(sentences: Sequence[Sentence]) -> tuple[SentenceRecord, ...]:
    return tuple(
        [
            SentenceRecord(one.read or one.source, one.ids, one.hypotheses[0].tokens if one.hypotheses else ())
            for one in sentences
        ]
    )
