"""The search for one sentence's target. How the next tokens are selected is the strategy of a subclass.

A search names the tokens that its rows read next (`tokens`), takes the likeliest next tokens of each row (`advance`),
and returns which rows continue. It never uses the model, so one loop can step many searches together
(model/search/driver.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite

from model.model_folder import Generation
from model.search.backend_interface import ScoreRows, TokenRows
from model.search.options import DEFAULT_GENERATION, LENGTH_PENALTY, DecodingOptions, Hypothesis, TraceStep
from model.search.repetition import blocked_tokens, ends_in_loop, has_loop, longest_loop

TRACED = 8
"""Candidates of each row that a trace keeps."""
_GUARD_NGRAM = 3
"""`no_repeat_ngram_size` of a target that the loop guard decodes again."""
_CHECK_INTERVAL = 8
"""Steps between two checks of an unfinished target for loops."""

NOT_FINITE = "The scores of this text are not finite numbers: its weights overflow in this precision."


class NotFiniteError(ArithmeticError):
    """The model computed NaN or an infinity for a sentence."""


class Search(ABC):
    """The state of one sentence.

    `tokens` and `forced` have one entry per live row; there are never more than `width` rows. `candidates` is the
    number of likeliest tokens per row that `advance` needs. Forced tokens come first: the target of the options, or the
    prefix. A first token of the options is read before them and is not part of the target. `generated` has the tokens
    so far; it is empty for a beam search.

    With the loop guard, a target in which the same few tokens are repeated several times in a row, while the source has
    no such repetition, is decoded again with n-gram blocking; blocking everywhere would also forbid repetitions that
    are correct. Then `restart` is set: the caller starts the first row again from the source, discards the outputs of
    further steps, and clears it before the next `advance`.

    A row whose best score is not a finite number ends the search: `finite` is False then, and there are no
    hypotheses.

    `start`, `end`, `max_length` and `generation` are the model's own. Raises ValueError for a prefix or target that is
    longer than the model reads.
    """

    def __init__(
        self,
        options: DecodingOptions,
        *,
        start: int,
        end: int,
        source: Sequence[int],
        max_length: int,
        generation: Generation = DEFAULT_GENERATION,
    ) -> None:
        self.width = options.beam_size if options.target is None else 1
        self.restart, self.finite = False, True
        self._options, self._start, self._end, self._source = options, start, end, source
        self._ngram = 0 if options.target is not None else options.no_repeat_ngram_size
        self._guarded = options.loop_guard and options.target is None
        if options.target is not None:
            generation = DEFAULT_GENERATION
        self._forbidden, self._forced_end = frozenset(generation.forbidden), generation.forced_end
        self._beam_threshold = generation.beam_threshold
        self._unseen = 0 if options.first_token is None else 1
        self._prefix, self._limit = _prefix_and_limit(options, end, len(source), max_length - self._unseen)
        self._steps = 0
        self._begin()

    def _begin(self) -> None:
        """Sets the state before the first step."""
        first = self._options.first_token
        self.done = False
        self.trace: list[TraceStep] = []
        self.generated: list[int] = []
        # With one candidate a backend may run several greedy steps in one call, which n-gram blocking does not allow.
        least = 2 * self.width if self.width > 1 or self._ngram else 1
        self._fewest = self.candidates = max(least, TRACED if self._options.trace else 0)
        self._blocked: list[frozenset[int]] = []
        self._reads_first = first is not None
        self._prepare([()])
        self.tokens = [self._start]
        if first is not None:
            self.forced = [first]

    @property
    def known(self) -> Sequence[int]:
        """The forced tokens of the next steps, as far as `advance` needs nothing but their scores."""
        if self._options.trace:
            return ()
        first = self._options.first_token
        return (first, *self._prefix) if self._reads_first and first is not None else self._prefix[self._position() :]

    def advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        """Takes candidates (rows, C), best first; returns the parent row of each row of the next step, none when done."""
        if self._reads_first:
            self._reads_first = False
            self.tokens = list(self.forced)
            self._prepare([()])
            parents = [0]
        elif not isfinite(sum([row[0] for row in scores])):
            self.finite, self.done = False, True
            return []
        else:
            parents = self._advance(ids, scores)
        self._steps += 1
        if self._guarded and (self.done or self._steps % _CHECK_INTERVAL == 0) and self._loops():
            self._ngram, self._guarded, self.restart = _GUARD_NGRAM, False, True
            self._begin()
            return []
        return parents

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Returns the finished targets, best first. Raises NotFiniteError."""
        if not self.finite:
            raise NotFiniteError(NOT_FINITE)
        return self._hypotheses()

    @abstractmethod
    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        """Returns the finished targets, best first."""

    @abstractmethod
    def _advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        """Takes the candidates of one step: see `advance`."""

    @abstractmethod
    def _position(self) -> int:
        """Returns the number of steps of this target, without that of a first token."""

    @abstractmethod
    def _unfinished(self) -> Sequence[Sequence[int]]:
        """Returns the tokens of every row that may still become the best target; none where a finished one may be it."""

    def _prepare(self, rows: Sequence[Sequence[int]]) -> None:
        """Sets the forced and the blocked tokens of the next step for live rows with these tokens."""
        step = len(rows[0])
        forced = self._prefix[step] if step < len(self._prefix) else -1
        self.forced = [forced] * len(rows)
        if self._ngram or self._forbidden:
            self._blocked = [] if forced >= 0 else [self._forbidden | blocked_tokens(row, self._ngram) for row in rows]
            self.candidates = self._fewest + max(map(len, self._blocked), default=0)

    def _normalized(self, total: float, length: int) -> float:
        return normalize(total, max(1, length) + self._unseen, self._options)

    def _loops(self) -> bool:
        """Returns whether the best target, or every row that may still become it, loops more than the source does."""
        if self.done:
            return has_loop(self.hypotheses()[0].tokens, self._source)
        rows = self._unfinished()
        if not rows or not all(ends_in_loop(row) for row in rows):
            return False
        return min(map(longest_loop, rows)) > 2 * longest_loop(self._source)


def normalize(total: float, length: int, options: DecodingOptions) -> float:
    """Returns the summed log-probability divided by the length penalty; `length` includes the end of sentence."""
    alpha = LENGTH_PENALTY if options.length_penalty is None else options.length_penalty
    return total / float(((5 + length) / 6) ** alpha if options.normalization == "gnmt" else length**alpha)


def traced_candidates(ids: TokenRows, scores: ScoreRows) -> tuple[tuple[tuple[int, float], ...], ...]:
    """Returns the first candidates (token, log-probability) of each row, for a TraceStep."""
    return tuple(
        tuple(zip(row_ids[:TRACED], row_scores[:TRACED], strict=True))
        for row_ids, row_scores in zip(ids, scores, strict=True)
    )


def _prefix_and_limit(
    options: DecodingOptions, end: int, source_length: int, max_length: int
) -> tuple[tuple[int, ...], int]:
    """Returns the forced tokens and the number of steps of a model that writes at most `max_length` tokens."""
    if options.target is not None:
        prefix = (*options.target, end)
        if len(prefix) > max_length:
            raise ValueError(f"The target has {len(options.target)} tokens; the model reads at most {max_length - 1}.")
        return prefix, len(prefix)
    prefix = options.prefix
    if len(prefix) >= max_length:
        raise ValueError(f"The prefix has {len(prefix)} tokens; the model writes at most {max_length - 1}.")
    limit = options.max_length if options.max_length is not None else source_length + 50
    return prefix, max(min(limit, max_length), len(prefix) + 1)
