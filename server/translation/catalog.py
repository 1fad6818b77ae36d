"""The served models and the routes between languages. A reload creates a new catalog."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from model.analysis.attention_alignment import AlignmentLayer
from model.analysis.confidence import Confidence, DirectionLimits
from model.model_folder import MAX_BEAM, Generation, Pairs, targets_by_source
from model.search.options import DecodingOptions
from model.tokenizer import Encoding, Tokenizer
from server.errors import InvalidRequest, ModelFailed, UnsupportedLanguage
from server.text.languages import language_name, resolve_language_code

log = logging.getLogger(__name__)
AUTO = "auto"
NO_FORMALITY = (
    "Target language without forms of address: 'formality' is not supported for given "
    "'target_lang'; prefer_more and prefer_less pass without an effect."
)
INVISIBLE = "\u00ad\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
"""Soft hyphens, joiners and direction marks, which a vocabulary spells in bytes."""
_READ_AS = str.maketrans("\u2010\u2011\u00b4\u02bc\u201a\u2039\u203a", "--''„«»", INVISIBLE)
"""Common hyphens, apostrophes and quotation marks for those that many vocabularies lack."""
_CHANGED = frozenset(map(chr, _READ_AS))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model folder without its weights. `max_length` is in source tokens; sentences longer than
    `segment_length` (0: `max_length`) are divided. `bytes` is the size of the weight files without
    the shortlist. `version` changes with the content of the folder; `key` identifies name and
    content."""

    name: str
    folder: Path
    pairs: Pairs
    license: str
    max_length: int
    tokenizer: Tokenizer
    alignment: AlignmentLayer
    version: str = ""
    bytes: int = 0
    beam_size: int = 1
    widest_beam: int = MAX_BEAM
    """Beam width for which the server has slots."""
    generation: Generation = Generation()
    """Default decoding options; the beam width is `beam_size`."""
    formality: frozenset[str] = frozenset()
    """Target languages for which the model knows the forms of address."""
    confidence: Confidence | None = None
    """None if the folder has no confidence.json for its weights."""
    segment_length: int = 0
    preference: int = 0
    """Of several models with a pair, the larger number comes first, after `prefer`."""
    shape: tuple[int, int, int] | None = None
    """Encoder layers, decoder layers and heads, if they are known."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """BLEU ("bleu") and COMET ("comet") on FLORES, by its publisher."""

    @property
    def key(self) -> str:
        return f"{self.name}@{self.version}"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "segment_length", min(self.segment_length or self.max_length, self.max_length)
        )

    @property
    def reranked_beam(self) -> int:
        return min(wider_beam(self.beam_size), self.widest_beam)


@dataclass(frozen=True, slots=True)
class FailedModel:
    """A model that could not be loaded. It is tried again at `retry_at` on the monotonic clock."""

    model: ServedModel
    error: str
    retry_at: float = 0.0

    @property
    def unavailable(self) -> ModelFailed:
        """The error of a request that needs the model."""
        seconds = math.ceil(self.retry_at - time.monotonic())
        return ModelFailed(f"The model {self.model.name} cannot be loaded: {self.error}", seconds)


@dataclass(frozen=True, slots=True)
class Leg:
    """One step of a route: a model, its source language and its target language."""

    model: ServedModel
    source: str
    target: str
    symbol: str = ""
    """The form of address of the translation (`model.symbols`), or ""."""
    _decoding: dict[DecodingOptions, DecodingOptions] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Results of `decoding_options`."""

    @property
    def first_token(self) -> int | None:
        """The token that the targets in this language begin with and that is not part of them."""
        return self.model.tokenizer.first_token(self.target)

    @property
    def limits(self) -> DirectionLimits | None:
        """The calibration of the direction, if the model has one."""
        confidence = self.model.confidence
        return confidence.directions.get(f"{self.source}-{self.target}") if confidence else None

    def encode(self, text: str) -> Encoding:
        """Returns the input of the model for a text, with offsets in the text."""
        read = readable(text)
        encoding = self.model.tokenizer.encode(read, self.target, self.source, self.symbol)
        return encoding if len(read) == len(text) else _with_places_in(text, encoding)

    def encode_ids(self, text: str) -> tuple[int, ...]:
        """Returns only the ids of `encode`."""
        return self.model.tokenizer.encode_ids(
            readable(text), self.target, self.source, self.symbol
        )

    @property
    def reverse(self) -> Leg | None:
        """The other direction by the same model, if the model translates it."""
        known = (self.target, self.source) in self.model.pairs
        return Leg(self.model, self.target, self.source) if known else None

    def decoding_options(self, options: DecodingOptions) -> DecodingOptions:
        """Returns options with the defaults and the first token of the model. `rerank` widens the
        beam; it is dropped without several hypotheses or a reverse direction."""
        if not options.is_common:
            return self._with_defaults(options)
        if (known := self._decoding.get(options)) is None:
            if len(self._decoding) > 255:
                self._decoding.clear()
            known = self._decoding[options] = self._with_defaults(options)
        return known

    def _with_defaults(self, options: DecodingOptions) -> DecodingOptions:
        if options.rerank:
            options = self._for_reranking(options)
        chosen = options.with_defaults(self.model.beam_size, self.model.generation)
        first = self.first_token
        return chosen if first is None else dataclasses.replace(chosen, first_token=first)

    def _for_reranking(self, options: DecodingOptions) -> DecodingOptions:
        beam = max(options.beam_size or self.model.reranked_beam, options.hypotheses)
        if self.reverse is None or beam == 1 or options.prefix or options.target is not None:
            return dataclasses.replace(options, rerank=False)
        return dataclasses.replace(options, beam_size=beam, hypotheses=beam)


def readable(text: str) -> str:
    """Returns a text without invisible characters and with common hyphens and quotation marks."""
    return text if text.isascii() or _CHANGED.isdisjoint(text) else text.translate(_READ_AS)


def _with_places_in(text: str, encoding: Encoding) -> Encoding:
    """Returns the encoding of a text without its invisible characters with offsets in the text."""
    places = [i for i, character in enumerate(text) if character not in INVISIBLE] + [len(text)]
    offsets = [
        (places[start], places[end - 1] + 1)
        if start < end
        else (places[start] if start else 0,) * 2
        for start, end in encoding.offsets
    ]
    return dataclasses.replace(encoding, offsets=tuple(offsets))


class ModelCatalog:
    """Languages, pairs and routes of a set of models. Of several models with a pair the first is
    used: by the names in `prefer`, then by `ServedModel.preference`, then by name. A pair without a
    model is translated through one pivot language, English if possible. A request that only
    `failed` models could translate raises ModelFailed."""

    def __init__(
        self,
        models: Iterable[ServedModel],
        prefer: Sequence[str] = (),
        check_pending: Callable[[str | None, str | None], str] = lambda source, target: "",
        failed: Iterable[FailedModel] = (),
    ) -> None:
        self.prefer = tuple(prefer)
        self.failed = tuple(failed)
        self.check_pending = check_pending
        """Called before a language or pair is refused. Raises Unavailable while a model for it is
        downloaded, and returns a sentence if the download failed."""
        rank = {name: number for number, name in enumerate(self.prefer)}
        self.models = tuple(
            sorted(
                models,
                key=lambda model: (rank.get(model.name, len(rank)), -model.preference, model.name),
            )
        )
        self._only: dict[str, ModelCatalog] = {}
        self._single: dict[tuple[str, str], tuple[Leg, ...]] = {}
        """Legs of pairs of one model that were requested."""
        # model -> source -> targets; a model of 200 languages shares one set
        self._tables = [(model, targets_by_source(model.pairs)) for model in self.models]
        near: dict[str, frozenset[str]] = {}
        for _, table in self._tables:
            for source, targets in table.items():
                known = near.get(source)
                near[source] = targets if known is None or known <= targets else known | targets
        self.sources = tuple(sorted(near))
        self.languages = tuple(sorted(frozenset(near).union(*near.values())))
        lost = (targets_by_source(failed.model.pairs) for failed in self.failed)
        self.known_sources = tuple(sorted(frozenset(near).union(*lost)))
        """The source languages of all models, also of those that could not be loaded."""
        reached = {
            source: {near[target] for target in targets if target in near}
            for source, targets in near.items()
        }
        self._targets = {
            source: tuple(sorted(near[source].union({source}, *sets)))
            for source, sets in reached.items()
        }
        described = [
            (model.key, model.pairs, model.max_length, model.beam_size) for model in self.models
        ]
        self.fingerprint = hashlib.sha256(repr(described).encode()).hexdigest()
        """A hash of the content of all models, for the keys of the result cache."""

    def targets(self, source: str) -> tuple[str, ...]:
        """Returns the targets of a source, directly or through a pivot, and the source itself."""
        return self._targets.get(source, ())

    def source(self, code: str) -> str:
        """Returns the served source language for a caller's code. Raises UnsupportedLanguage."""
        return self._served(code, self.sources, "source")

    def target(self, code: str) -> str:
        """Returns the served target language for a caller's code. Raises UnsupportedLanguage."""
        return self._served(code, self.languages, "target")

    def route(
        self, source: str, target: str, formality: str | None = None, required: bool = False
    ) -> tuple[Leg, ...]:
        """Returns the legs between two languages by a caller's codes: none for the same language,
        one, or two through a pivot. The last has the form of address `formality` if its model knows
        it, else InvalidRequest is raised if it is `required`. Raises UnsupportedLanguage without a
        route, and Unavailable while one is downloaded."""
        if formality is None and (known := self._single.get((source, target))):
            return known
        try:
            target, source = self.target(target), self.source(source)
        except UnsupportedLanguage as error:
            reason = self.check_pending(source, target)
            if error.reason or not reason:
                raise
            raise UnsupportedLanguage(error.message, error.code, error.role, reason) from None
        legs = self._legs(source, target)
        if formality is None or not legs:
            return legs
        if target in legs[-1].model.formality:
            return (*legs[:-1], dataclasses.replace(legs[-1], symbol=formality))
        if required:
            raise InvalidRequest(NO_FORMALITY)
        return legs

    def _legs(self, source: str, target: str) -> tuple[Leg, ...]:
        if source == target:
            return ()
        if known := self._single.get((source, target)):
            return known
        if model := self.direct(source, target):
            return self._single.setdefault((source, target), (Leg(model, source, target),))
        for pivot in sorted(self.languages, key=lambda language: (language != "en", language)):
            first, second = self.direct(source, pivot), self.direct(pivot, target)
            if first and second:
                return Leg(first, source, pivot), Leg(second, pivot, target)
        reason = self.check_pending(source, target)
        if self.failed:
            every = ModelCatalog(
                [*self.models, *[failed.model for failed in self.failed]], self.prefer
            )
            keys = {leg.model.key for leg in every._legs(source, target)}
            self.check_failed(lambda model: model.key in keys)
        goal, origin = [f"{language_name(code)} ({code})" for code in (target, source)]
        raise UnsupportedLanguage(
            f"{goal} is not available as a target language from {origin}", reason=reason
        )

    def searched(self, source: str, target: str, options: DecodingOptions) -> DecodingOptions:
        """Returns the options with the defaults of the model for two codes. If they need to be
        resolved or detected first, or need two models, the beam is the widest of all models."""
        if (source, target) in self._single or self.direct(source, target):
            return self._legs(source, target)[0].decoding_options(options)
        stated = [
            model.reranked_beam if options.rerank else model.beam_size for model in self.models
        ]
        widest = options.with_defaults(max(stated, default=1))
        if widest.beam_size == 1 and options.rerank:
            return dataclasses.replace(widest, rerank=False)
        return widest

    def only(self, name: str) -> ModelCatalog:
        """Returns the catalog of one model. Raises InvalidRequest for an unknown name."""
        if name not in self._only:
            model = next((model for model in self.models if model.name == name), None)
            if model is None:
                self.check_failed(lambda model: model.name == name)
                names = ", ".join(model.name for model in self.models)
                raise InvalidRequest(
                    f"There is no model {printable_code(name)}; there are {names}."
                )
            self._only[name] = ModelCatalog([model])
        return self._only[name]

    def served_pairs(self, model: ServedModel) -> Iterator[tuple[str, str]]:
        return (pair for pair in sorted(model.pairs) if self.direct(*pair) is model)

    def check_order(self, names: Iterable[str]) -> None:
        """Logs a warning for each of these models that serves no pair because others come first,
        and for unknown names in `prefer`."""
        for model in self.models:
            if model.name in names and next(self.served_pairs(model), None) is None:
                log.warning(
                    "model %s serves no language pair, as others come first; name it in --prefer",
                    model.name,
                )
        failed = {failed.model.name for failed in self.failed}
        for name in set(self.prefer).difference(failed, (model.name for model in self.models)):
            log.warning("--prefer names %s, and there is no such model", name)

    def knows_formality(self, target: str) -> bool:
        """Returns whether a model knows the forms of address of a target language."""
        return any(target in model.formality for model in self.models)

    def model(self, key: str) -> ServedModel | None:
        """Returns the model with a key, or None."""
        return next((model for model in self.models if model.key == key), None)

    def check_failed(self, is_wanted: Callable[[ServedModel], bool]) -> None:
        """Raises ModelFailed if such a model could not be loaded."""
        for failed in self.failed:
            if is_wanted(failed.model):
                raise failed.unavailable

    def _served(self, code: str, served: Sequence[str], role: str) -> str:
        language = code if code in served else resolve_language_code(code, served)
        if language is None:
            side = int(role == "target")
            self.check_failed(
                lambda model: bool(
                    resolve_language_code(code, {pair[side] for pair in model.pairs})
                )
            )
            raise UnsupportedLanguage(
                f"{printable_code(code)} is not supported as {role} language; served: "
                f"{', '.join(served)}.",
                printable_code(code).strip("'"),
                role,
                self.check_pending(*((code, None) if role == "source" else (None, code))),
            )
        return language

    def direct(self, source: str, target: str) -> ServedModel | None:
        """Returns the first model that translates a pair."""
        if source == target:
            return None
        return next(
            (model for model, table in self._tables if target in table.get(source, ())), None
        )


def wider_beam(beam: int) -> int:
    """Returns the beam width of a retry, or for reranking: twice the first width, at least 4, at
    most 16, and not below the first."""
    return max(beam, min(16, max(4, 2 * beam)))


def printable_code(code: str) -> str:
    """Returns a caller's language code for an error message: shortened, printable and quoted."""
    printable = "".join(character for character in code[:20] if character.isprintable())
    return repr(printable)
