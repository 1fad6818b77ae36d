"""Options and results of decoding one sentence, shared by search, the worker's messages and the
API. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from operator import attrgetter
from typing import Any, Literal

from model.model_folder import MAX_BEAM, MAX_LENGTH_PENALTY, Generation, LengthNormalization
from model.search.backend_interface import Restriction

DEFAULT_GENERATION = Generation()
"""That of a model that states nothing."""
LENGTH_PENALTY = 0.6
"""Alpha if neither the caller nor the model states one (the paper, section 6.1)."""
RERANK_THRESHOLD = 2.0
"""Nats. A beam pruned for the best hypothesis has few others worth comparing."""


def _kept(method: Callable[..., DecodingOptions]) -> Callable[..., DecodingOptions]:
    """Caches the results of a method for options that many texts have."""
    results = lru_cache(256)(method)

    @wraps(method)
    def call(options: DecodingOptions, *arguments: Any, **named: Any) -> DecodingOptions:
        return (results if options.is_common else method)(options, *arguments, **named)

    return call


class _HashedOnce:
    """Caches the hash of an object of many fields."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions(_HashedOnce):
    """How to decode one sequence.

    `beam_size` 1 is greedy; 0 is the model's width, which `with_defaults` puts in its place.
    `length_penalty` is alpha, None that of the model or else LENGTH_PENALTY; "gnmt" divides the
    summed log-probability by ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14), "average"
    by length ** alpha (Hugging Face, CTranslate2). `early_stopping` ends a beam search at
    `beam_size` finished hypotheses, even if a live one might still score higher. With
    `shrinking_beam` each finished hypothesis takes the place of a live one (Marian). `max_length`
    bounds generated tokens, end of sentence included; None means source length + 50 (the paper,
    section 6.1). `hypotheses` is n of the n-best list, at most `beam_size`. `prefix` holds target
    ids that are forced first. `first_token` is a forced first target token that is not part of the
    target (the language of M2M100 and NLLB): its log-probability counts as 0, and only the length
    normalization counts it, as in Hugging Face. `target` is a whole target (without end of
    sentence) that is only scored: forced decoding. `no_repeat_ngram_size` n > 0 blocks every n-gram
    that the target already contains. `loop_guard` decodes a sentence again with n-gram blocking
    when its target loops (model/search/search.py). `masked_heads` are switched off: (kind, layer,
    head) with kind "encoder" | "decoder" | "cross", counted from 0. `rerank` asks for an n-best
    list to be reranked (server/translation): a `beam_threshold` of the model counts as at least
    RERANK_THRESHOLD. `trace` records a bounded number of candidates of every step. `shortlist` is
    the digest of the shortlist that limits the target, "" for no limit, None for the worker's
    default. Forced tokens are always allowed.
    """

    beam_size: int = 1
    length_penalty: float | None = None
    normalization: LengthNormalization = "gnmt"
    early_stopping: bool = False
    shrinking_beam: bool = False
    max_length: int | None = None
    hypotheses: int = 1
    prefix: tuple[int, ...] = ()
    first_token: int | None = None
    target: tuple[int, ...] | None = None
    no_repeat_ngram_size: int = 0
    loop_guard: bool = False
    masked_heads: tuple[tuple[str, int, int], ...] = ()
    rerank: bool = False
    trace: bool = False
    shortlist: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.beam_size <= MAX_BEAM:
            raise ValueError(f"beam_size must be between 1 and {MAX_BEAM}, not {self.beam_size}.")
        if not 1 <= self.hypotheses <= (self.beam_size or MAX_BEAM):
            raise ValueError(
                f"hypotheses must be between 1 and beam_size {self.beam_size}, not "
                f"{self.hypotheses}."
            )
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {self.max_length}.")
        if self.no_repeat_ngram_size < 0:
            raise ValueError(
                f"no_repeat_ngram_size must be at least 0, not {self.no_repeat_ngram_size}."
            )
        if self.length_penalty is not None and not 0.0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise ValueError(
                f"length_penalty must be between 0 and {MAX_LENGTH_PENALTY}, not "
                f"{self.length_penalty}."
            )

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(_values(self)))
            return self._hash

    @property
    def is_common(self) -> bool:
        """Whether many texts may have the options: they force no tokens."""
        return not (self.prefix or self.target)

    @property
    def restriction(self) -> Restriction:
        """The tokens that the target may have."""
        return Restriction(self.shortlist, self.prefix if self.target is None else self.target)

    @_kept
    def limited_to(self, shortlist: str) -> DecodingOptions:
        """Returns the options with this shortlist unless they name one."""
        return (
            self if self.shortlist is not None else dataclasses.replace(self, shortlist=shortlist)
        )

    @_kept
    def with_defaults(
        self, beam_size: int, stated: Generation = DEFAULT_GENERATION
    ) -> DecodingOptions:
        """Returns the options with what the model states for unset ones, and a beam of `beam_size`.
        A wider n-best list widens the beam."""
        penalized = (
            stated if self.length_penalty is None and stated.length_penalty is not None else self
        )
        return dataclasses.replace(
            self,
            beam_size=self.beam_size or max(beam_size, self.hypotheses),
            length_penalty=penalized.length_penalty,
            normalization=penalized.normalization,
            early_stopping=self.early_stopping or stated.early_stopping,
            shrinking_beam=self.shrinking_beam or stated.shrinking_beam,
            no_repeat_ngram_size=self.no_repeat_ngram_size or stated.no_repeat_ngram_size,
        )


_values = attrgetter(*[field.name for field in dataclasses.fields(DecodingOptions)])


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One decoding step of one sentence. `beams[i]` lists the candidates (token, its
    log-probability) of row i; `chosen` lists the surviving rows as (parent row, token, summed
    log-probability); `finished` those that ended here."""

    beams: tuple[tuple[tuple[int, float], ...], ...]
    chosen: tuple[tuple[int, int, float], ...]
    finished: tuple[tuple[int, int, float], ...]


@dataclass(slots=True)
class Hypothesis:
    """One finished target. `tokens` is without start and end of sentence. `token_scores` has the
    natural log-probability of every generated token, and of the end of sentence if it was reached.
    `score` is their sum after length normalization."""

    tokens: tuple[int, ...]
    token_scores: tuple[float, ...]
    score: float
    finish_reason: Literal["stop", "length"]
