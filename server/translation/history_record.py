"""Converts a translation to the record that the history keeps."""

from __future__ import annotations

import time

from server.history.records import LegRecord, SentenceRecord, TranslationRecord
from server.translation.types import Translation


def history_record(translation: Translation) -> TranslationRecord:
    """Returns the record of a translation: the token ids of every sentence, without the translated text."""
    legs = tuple(
        LegRecord(
            leg.key,
            leg.source,
            leg.target,
            tuple(
                SentenceRecord(
                    sentence.read or sentence.source,
                    sentence.ids,
                    sentence.hypotheses[0].tokens if sentence.hypotheses else (),
                )
                for sentence in leg.sentences
            ),
        )
        for leg in translation.legs
    )
    return TranslationRecord(translation.id, time.time(), legs)
