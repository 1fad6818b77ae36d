"""The request and the result of a translation as plain data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import NO_TIMINGS, Timings
from server.text.glossary import TermIndex
from server.text.language_id import DetectedLanguage
from server.text.segmentation import Split
from server.text.syntax.xml import Rules

Format = Literal["text", "html", "xml", "coded"]
Fault = Literal[
    "truncated", "repetition", "omission", "copied", "wrong_language", "source_language", "number"
]
Flag = Fault | Literal["low_confidence", "placeholder_restored"]
FAULTS: frozenset[Flag] = frozenset(get_args(Fault))
"""Flags of a translation that is probably wrong."""
OnFlag = Literal["mark", "retry", "source"]
Storage = Literal["use", "renew", "none"]


@dataclass(slots=True, kw_only=True)
class TranslationRequest:
    """Texts between the same two languages, whose codes are as the caller wrote them; `source` may
    be "auto".

    - `markup`: what the elements of XML mean.
    - `split`: where sentences end; None is "all" in text and "punctuation" in markup.
    - `options`: how every sentence is decoded. If `best_beam` is not 0, it is the beam width of the
      best translation, and that of `options` is the width of the list of alternatives.
    - `client`, `weight`: an opaque key of the caller for fair queuing, and the factor of its share.
    - `deadline`: in seconds on the monotonic clock.
    - `remember`: whether the translation is added to the history.
    - `storage`: "use" reads the result cache, "renew" replaces the entry, "none" stores nothing.
    - `accepted`: codes of Accept-Language, which help to detect the source.
    - `localize_numbers`: whether numbers get the separators of the target language.
    - `formality`: the symbol of a form of address (`model.symbols`). A model that does not know it
      is an error only if `formality_required`.
    - `on_flag`: a sentence with one of the FAULTS is only marked, translated again with a wider
      beam and blocked n-grams, or replaced by its source.
    - `thorough`: every sentence is checked for omissions by its attention.
    - `model`: the name of the only model to use.
    - `key`: identifies a repeated request; None is a hash of its texts and options.
    """

    texts: tuple[str, ...]
    source: str
    target: str
    format: Format = "text"
    markup: Rules = Rules()
    split: Split | None = None
    options: DecodingOptions = DecodingOptions()
    best_beam: int = 0
    client: str = ""
    weight: float = 1.0
    deadline: float | None = None
    remember: bool = True
    storage: Storage = "use"
    accepted: tuple[str, ...] = ()
    do_not_translate: tuple[str, ...] = ()
    localize_numbers: bool = False
    glossary: TermIndex | None = None
    formality: str | None = None
    formality_required: bool = False
    on_flag: OnFlag = "mark"
    thorough: bool = False
    model: str | None = None
    key: int | None = None

    @property
    def best(self) -> DecodingOptions:
        """The options of the best translation, which does not depend on the number of
        alternatives."""
        options = self.options
        beam = self.best_beam or options.beam_size
        is_best = options.hypotheses == 1 and options.beam_size == beam
        return options if is_best else replace(options, hypotheses=1, beam_size=beam)


@dataclass(slots=True)
class Sentence:
    """One sentence of one leg, at one or several places of its text. `ids` are the token ids that
    the encoder read, empty for a copied sentence. `hypotheses` is the n-best list with the texts
    `targets`. `read` is the text that the model read, in which stand-ins replace codes; `originals`
    are the visible texts of the codes by stand-in. `flags` say what may be wrong. `confidence` is
    the probability that nothing is (`model.analysis.confidence`), or None if it is not known."""

    source: str
    ids: tuple[int, ...]
    targets: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
    timings: Timings = NO_TIMINGS
    read: str = ""
    originals: dict[str, str] = field(default_factory=dict)
    flags: frozenset[Flag] = frozenset()
    confidence: float | None = None
    options: DecodingOptions | None = None
    """How the hypotheses were decoded."""

    @property
    def copied(self) -> bool:
        return not self.ids


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """Callbacks for the parts of a translation in order, of the last leg only. They get the number
    of the text in the request and of the sentence in the text, and the sentence (`on_sentence`) or
    its translation so far (`on_tokens`)."""

    on_sentence: Callable[[int, int, Sentence], None]
    on_tokens: Callable[[int, int, str], None] | None = None


@dataclass(slots=True)
class TranslatedLeg:
    """A whole text translated by one model, with its sentences in order: a sentence at several
    places is one object. `key` is `ServedModel.key`, `computation` is `WorkerReady.computation`."""

    model: str
    key: str
    source: str
    target: str
    text: str
    sentences: tuple[Sentence, ...]
    beam_size: int
    reranked: bool = False
    computation: str = ""

    @property
    def distinct(self) -> Collection[Sentence]:
        """The sentences, each once."""
        return {id(sentence): sentence for sentence in self.sentences}.values()


@dataclass(slots=True)
class Translation:
    """The translation of one text. `detected` is set if the source language was "auto". `legs` is
    empty if source and target language are the same. `cached` says that it is from the result
    cache."""

    id: str
    text: str
    alternatives: tuple[str, ...]
    detected: DetectedLanguage | None
    legs: tuple[TranslatedLeg, ...]
    cached: bool = False

    @property
    def timings(self) -> Timings:
        """The slowest timings of each leg, summed over the legs; 0 from the result cache."""
        if self.cached:
            return NO_TIMINGS
        if len(self.legs) == 1 == len(self.legs[0].sentences):
            return self.legs[0].sentences[0].timings
        parts = [
            [sentence.timings for sentence in leg.distinct] or [NO_TIMINGS] for leg in self.legs
        ]
        queue, encode, decode = [
            sum(max(getattr(timing, name) for timing in part) for part in parts)
            for name in ("queue", "encode", "decode")
        ]
        first = max((timing.first_token for part in parts for timing in part), default=0.0)
        return Timings(queue, encode, decode, first)
