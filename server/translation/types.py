"""The request and the result of a translation as plain data, in text. The engine exchanges token
ids only."""

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
    "truncated",
    "repetition",
    "omission",
    "copied",
    "wrong_language",
    "source_language",
    "number",
]
Flag = Fault | Literal["low_confidence", "placeholder_restored"]
FAULTS: frozenset[Flag] = frozenset(get_args(Fault))
"""Flags of a translation that is probably wrong."""
OnFlag = Literal["mark", "retry", "source"]
Storage = Literal["use", "renew", "none"]


@dataclass(slots=True, kw_only=True)
class TranslationRequest:
    """One or more texts between the same two languages. Language codes are as the caller wrote
    them; `source` may be "auto".

    `split` None stands for "all" in text and for "punctuation" in markup. `markup` says what the
    elements of XML mean. `options` applies to every sentence; where `best_beam` is not 0, it is the
    beam width of the best translation, and that of `options` the one of a longer list. `client` is
    an opaque key of the caller for fair queuing and `weight` the factor of its share. `accepted`
    are the codes of Accept-Language, which help to detect the source. `deadline` is in seconds on
    the monotonic clock. Without `remember` the translation is not added to the history. `storage`
    "use" takes the translation from the result cache if it is there; "renew" replaces it there;
    with "none" nothing of the request is stored. With `localize_numbers` numbers get the separators
    of the target language. `formality` is the symbol of a form of address (`model.symbols`), if the
    model knows it; with `formality_required` it is an error if not. `on_flag` says what happens to
    a sentence with one of the FAULTS: it is only marked, translated again with a wider beam and
    blocked n-grams, or replaced by its source. With `thorough` every sentence is checked for
    omissions and gets its confidence. `model` is the only one that is used. `key` identifies the
    request when it is sent again; None is a hash of its texts and options.
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
        """The options of the best translation, which does not depend on how many others are
        wanted."""
        options = self.options
        beam = self.best_beam or options.beam_size
        is_best = options.hypotheses == 1 and options.beam_size == beam
        return options if is_best else replace(options, hypotheses=1, beam_size=beam)


@dataclass(slots=True)
class Sentence:
    """One sentence of one leg, at one or several places of its text. `ids` are the token ids that
    the encoder read; they are empty for a copied sentence. `hypotheses` is the n-best list and
    `targets` holds their texts, best first. `read` is the text that the model read, which has
    stand-ins for codes: `originals` are what a reader sees of these, by their stand-ins. `flags`
    say what may be wrong with the translation. `confidence` is the probability that it is not wrong
    (`model.analysis.confidence`), or None if it is not known."""

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
    """Callbacks that receive the parts of a translation in order, from the last leg of a route
    only.

    `on_sentence(text, number, sentence)` gets the position of the text in the request, and of the
    sentence in the text, both counted from 0. `on_tokens(text, number, target)` gets the
    translation of a sentence so far.
    """

    on_sentence: Callable[[int, int, Sentence], None]
    on_tokens: Callable[[int, int, str], None] | None = None


@dataclass(slots=True)
class TranslatedLeg:
    """A whole text translated by one model, with its sentences in order: one at several places is
    one object. `key` identifies the model's weights (`ServedModel.key`); `beam_size` is the width
    of the search, `reranked` says whether its hypotheses were reranked. `computation` is that of
    the workers (`WorkerReady.computation`)."""

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
    empty if source and target language are the same. `cached` is True if it is from the result
    cache."""

    id: str
    text: str
    alternatives: tuple[str, ...]
    detected: DetectedLanguage | None
    legs: tuple[TranslatedLeg, ...]
    cached: bool = False

    @property
    def timings(self) -> Timings:
        """The timings of the slowest sentence of each leg, summed over the legs, in seconds: 0 for
        a translation from the result cache."""
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
