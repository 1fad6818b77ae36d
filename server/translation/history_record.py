"""Converts a translation to the record that the history keeps."""

from __future__ import annotations

import time

from server.store.history_records import LegRecord, SentenceRecord, TranslationRecord
from server.translation.types import Translation


def history_record(translation: Translation) -> TranslationRecord:
    """Returns the record of a translation: the token ids of every sentence, without the translated text."""
    legs = []
    for leg in translation.legs:
        sentences = [
            SentenceRecord(one.read or one.source, one.ids, one.hypotheses[0].tokens if one.hypotheses else ())
            for one in leg.sentences
        ]
        legs.append(LegRecord(leg.key, leg.source, leg.target, tuple(sentences)))
    return TranslationRecord(translation.id, time.time(), tuple(legs))
