"""One translation as plain data: what is asked, and what comes back. Text lives here; below this line there are only
ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import Timings
from server.text.language_id import DetectedLanguage
from server.text.segmentation import Span, Split

Format = Literal["text", "html"]
NO_TIMINGS = Timings(queue=0.0, encode=0.0, decode=0.0, first_token=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRequest:
    """One or more texts between the same two languages. Codes are as the caller wrote them; `source` may be "auto".

    `split` None cuts text at line ends and after sentences, HTML after sentences only. `options` holds for every
    sentence. `client` is an opaque key of the caller, for fairness. `deadline` is a moment on
    the monotonic clock, in seconds. `remember` False keeps it out of the history.
    """

    texts: tuple[str, ...]
    source: str
    target: str
    format: Format = "text"
    split: Split | None = None
    options: DecodingOptions = DecodingOptions()
    client: str = ""
    deadline: float | None = None
    remember: bool = True


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of one leg. `span` is its place in the leg's text. `ids` are what the encoder read (empty for a
    sentence that was copied), `hypotheses` the n-best list and `targets` their texts, best first. `read` is what the
    model read where that is not the source as it stands (see `server.protection`)."""

    span: Span
    source: str
    ids: tuple[int, ...]
    targets: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
    timings: Timings = NO_TIMINGS
    read: str = ""

    @property
    def copied(self) -> bool:
        return not self.ids


@dataclass(frozen=True, slots=True)
class TranslatedLeg:
    """A whole text after one model: `text`, and the sentences in order. `key` names the very weights
    (`ServedModel.key`)."""

    model: str
    key: str
    source: str
    target: str
    text: str
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """The answer for one text. `detected` is set where the source language was "auto"; `legs` is empty where source and
    target language are the same."""

    id: str
    text: str
    alternatives: tuple[str, ...]
    detected: DetectedLanguage | None
    legs: tuple[TranslatedLeg, ...]

    @property
    def timings(self) -> Timings:
        """Of the slowest sentence in each part, summed over the legs: what the caller waited for. Seconds."""
        if len(self.legs) == 1 and len(self.legs[0].sentences) == 1:
            return self.legs[0].sentences[0].timings
        parts = [[sentence.timings for sentence in leg.sentences] or [NO_TIMINGS] for leg in self.legs]
        return Timings(
            queue=sum(max(timing.queue for timing in part) for part in parts),
            encode=sum(max(timing.encode for timing in part) for part in parts),
            decode=sum(max(timing.decode for timing in part) for part in parts),
            first_token=max((timing.first_token for part in parts for timing in part), default=0.0),
        )
