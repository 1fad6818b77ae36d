"""The record of a translation that the history keeps."""

from __future__ import annotations

import time

from server.history.memory import Pair, Record, ServedLeg
from server.translation.types import Translation


def history_record(translation: Translation) -> Record:
    """A translation as the history keeps it."""
    legs = tuple(
        ServedLeg(
            leg.key,
            leg.source,
            leg.target,
            tuple(
                Pair(
                    sentence.read or sentence.source,
                    sentence.ids,
                    sentence.hypotheses[0].tokens if sentence.hypotheses else (),
                )
                for sentence in leg.sentences
            ),
        )
        for leg in translation.legs
    )
    return Record(translation.id, time.time(), legs)
