"""The search for one sentence's target. A subclass selects the next tokens.

A search names the tokens that its rows read next (`tokens`), takes the likeliest next tokens of
each row, and says which rows continue. It never uses the model, so one loop steps many searches
together (model/search/driver.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite
from typing import Any

from model.config import ModelConfig
from model.model_folder import Generation
from model.search.backend_interface import ScoreRows, TokenRows
from model.search.options import (
    DEFAULT_GENERATION,
    LENGTH_PENALTY,
    DecodingOptions,
    Hypothesis,
    TraceStep,
)
from model.search.repetition import blocked_tokens, ends_in_loop, has_loop, longest_loop

TRACED = 8
"""Candidates of each row that a trace keeps."""
CHECK_INTERVAL = 8
"""Steps between two checks of an unfinished target for loops."""
_GUARD_NGRAM = 3
"""`no_repeat_ngram_size` of a target that the loop guard decodes again."""

NOT_FINITE = (
    "The scores of this text are not finite numbers: its weights overflow in this precision."
)


class NotFiniteError(ArithmeticError):
    """The model computed NaN or an infinity for a sentence."""


class Search(ABC):
    """The state of one sentence in the batch.

    `tokens` has one entry per live row; there are never more than `width` rows, in the first of its
    `slots`. The rows have to write the `forced` token next, -1 for any. `candidates` is the number
    of likeliest tokens per row that the next step needs. Forced tokens come first: a first token of
    the options, which is not part of the target, then their target, or their prefix. `steps` counts
    the tokens that the rows have read, `queued` those of steps whose outputs are not read yet.
    `generated` has the tokens so far; it is empty for a beam search. `owner` is the caller's.

    With the loop guard, a target that repeats the same few tokens several times in a row, while the
    source does not, is decoded again with n-gram blocking; blocking everywhere would also forbid
    correct repetitions. Then `restart` is set: the caller starts the first row again from the
    source, discards the outputs of further steps, and calls `begin`.

    A row whose best score is not finite ends the search: `finite` is False then, and there are no
    hypotheses.

    `config` and `generation` are the model's own. Raises ValueError for a
    prefix or target that is longer than the model reads.
    """

    def __init__(
        self,
        options: DecodingOptions,
        config: ModelConfig,
        source: Sequence[int],
        generation: Generation = DEFAULT_GENERATION,
        slots: Sequence[int] = (),
        owner: Any = None,
    ) -> None:
        self.options, self.source, self.slots, self.owner = options, source, slots, owner
        self.width = options.beam_size if options.target is None else 1
        self.finite, self.queued = True, 0
        self.room = len(source) + config.max_length  # most known tokens that its next step reads
        self._start, self.end = config.decoder_start_id, config.eos_id
        self._ngram = 0 if options.target is not None else options.no_repeat_ngram_size
        self._guarded = options.loop_guard and options.target is None
        if options.target is not None:
            generation = DEFAULT_GENERATION
        self.forbidden, self.forced_end = frozenset(generation.forbidden), generation.forced_end
        self._beam_threshold = generation.beam_threshold
        self._unseen = 0 if options.first_token is None else 1
        prefix, limit = _prefix_and_limit(
            options, self.end, len(source), config.max_length - self._unseen
        )
        self._prefix = prefix if options.first_token is None else (options.first_token, *prefix)
        self.limit = limit + self._unseen
        self.begin()

    def begin(self) -> None:
        """Sets the state before the first step."""
        self.done = self.restart = False
        self.steps = 0
        self.trace: list[TraceStep] = []
        self.generated: list[int] = []
        self._finished: list[Any] = []
        # With one candidate a backend may run several greedy steps in one call, which n-gram
        # blocking does not allow.
        least = 2 * self.width if self.width > 1 or self._ngram else 1
        self._fewest = self.candidates = max(least, TRACED if self.options.trace else 0)
        self.blocked: Sequence[frozenset[int]] = ()
        """The tokens that each row must not write next; empty if only the model's are forbidden."""
        self._prepare([self._start])

    @property
    def known(self) -> Sequence[int]:
        """The forced tokens of the next steps for which the search needs only scores."""
        return () if self.options.trace else self._prefix[self.steps :]

    def advance(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        """Takes the candidates of the next token of the only row, best first: of a greedy search,
        or in a forced step."""
        if self.steps < self._unseen:
            self.steps += 1
            self._prepare([self.forced])
        elif isfinite(scores[0]):
            self._advance(ids, scores)
        else:
            self.fail()

    def fail(self) -> Sequence[int]:
        """Ends the search because of numbers that are not finite. Returns the rows of the next
        step, none."""
        self.steps += 1
        self.finite, self.done = False, True
        return ()

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Returns the finished targets, best first. Raises NotFiniteError."""
        if not self.finite:
            raise NotFiniteError(NOT_FINITE)
        return self._hypotheses()

    @abstractmethod
    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        """Returns the finished targets, best first."""

    @abstractmethod
    def _advance(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        """Takes the candidates of one row: see `advance`."""

    @abstractmethod
    def _target(self, row: int) -> list[int]:
        """Returns the tokens of a live row."""

    def _prepare(self, tokens: Sequence[int]) -> None:
        """Sets the tokens that the rows read next, and what they are forced or forbidden to
        write."""
        self.tokens = tokens
        self.forced = forced = self._prefix[self.steps] if self.steps < len(self._prefix) else -1
        if self._ngram or self.forbidden:
            self.blocked = ()
            if self._ngram and forced < 0:
                targets = map(self._target, range(len(tokens)))
                self.blocked = [
                    self.forbidden | blocked_tokens(row, self._ngram) - {self.end}
                    for row in targets
                ]
            most = max(map(len, self.blocked)) if self.blocked else len(self.forbidden)
            self.candidates = self._fewest + (most if forced < 0 else 0)

    def _normalized(self, total: float, length: int) -> float:
        return normalize(total, max(1, length) + self._unseen, self.options)

    def _check_loops(self) -> None:
        """Sets `restart` if the best target, or every row that may become it, loops more than the
        source."""
        if not self._guarded or not (self.done or self.steps % CHECK_INTERVAL == 0):
            return
        if self.done:
            loops = has_loop(self.hypotheses()[0].tokens, self.source)
        else:
            rows = range(0 if self._finished else len(self.tokens))
            loops = bool(rows) and all(ends_in_loop(self._target(row)) for row in rows)
            loops = loops and min(
                longest_loop(self._target(row)) for row in rows
            ) > 2 * longest_loop(self.source)
        if loops:
            self._ngram, self._guarded = _GUARD_NGRAM, False
            self.restart, self.done = True, False


def normalize(total: float, length: int, options: DecodingOptions) -> float:
    """Returns the summed log-probability divided by the length penalty; `length` includes the end
    of sentence."""
    alpha = LENGTH_PENALTY if options.length_penalty is None else options.length_penalty
    return total / float(
        ((5 + length) / 6) ** alpha if options.normalization == "gnmt" else length**alpha
    )


def traced_candidates(
    ids: TokenRows, scores: ScoreRows
) -> tuple[tuple[tuple[int, float], ...], ...]:
    """Returns the first candidates (token, log-probability) of each row, for a TraceStep."""
    return tuple(
        tuple(zip(row_ids[:TRACED], row_scores[:TRACED], strict=True))
        for row_ids, row_scores in zip(ids, scores, strict=True)
    )


def _prefix_and_limit(
    options: DecodingOptions, end: int, source_length: int, max_length: int
) -> tuple[tuple[int, ...], int]:
    """Returns the forced tokens and the largest number of steps."""
    if options.target is not None:
        prefix = (*options.target, end)
        if len(prefix) > max_length:
            raise ValueError(
                f"The target has {len(options.target)} tokens; the model reads at most "
                f"{max_length - 1}."
            )
        return prefix, len(prefix)
    prefix = options.prefix
    if len(prefix) >= max_length:
        raise ValueError(
            f"The prefix has {len(prefix)} tokens; the model writes at most {max_length - 1}."
        )
    limit = options.max_length if options.max_length is not None else source_length + 50
    return prefix, max(min(limit, max_length), len(prefix) + 1)
