"""The interfaces of backends, and the scores of a step that a backend returns to a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

TokenRows = Sequence[Sequence[int]]
ScoreRows = Sequence[Sequence[float]]
"""Candidates of each row. Searches read single numbers, faster in lists than in arrays."""

MaskedHeads = tuple[tuple[str, int, int], ...]
"""Heads that are switched off, as (kind, layer, head)."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """The tokens that a target may have: those that a shortlist allows for its source, and the
    `forced` ones. `shortlist` is the digest of the list, "" for all tokens, None for the backend's
    default."""

    shortlist: str | None = None
    forced: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Likeliest next tokens of each row, best first: ids (B, C) and natural log-probabilities (B,
    C). A forced row has its forced token in column 0."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]


def with_forced(
    output: StepOutput, forced: Sequence[int], scores: NDArray[np.float32]
) -> StepOutput:
    """Puts the forced tokens that are not negative in column 0 of their rows, with these
    log-probabilities (B,)."""
    for row, token in enumerate(forced):
        if token >= 0:
            output.ids[row], output.scores[row] = (
                np.roll(output.ids[row], 1),
                np.roll(output.scores[row], 1),
            )
            output.ids[row, 0], output.scores[row, 0] = token, scores[row]
    return output


class Backend(Protocol):
    """Runs the model for searches. A slot holds one row: the tokens decoded so far and its
    source."""

    slots: int

    def prefill(
        self,
        sources: Sequence[Sequence[int]],
        slots: Sequence[int],
        masked_heads: Sequence[MaskedHeads] = (),
        restrictions: Sequence[Restriction] = (),
    ) -> None:
        """Encodes the sources as one batch and starts a row for each in its slot. A backend without
        shortlists ignores `restrictions`."""

    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        """Advances each row by its token and returns the `candidates` likeliest next ones.
        `forced[i]` >= 0 puts that token in column 0."""

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        """Row targets[i] continues from what row origins[i] held before the call."""

    def free(self, slots: Sequence[int], *, broken: bool = False) -> None:
        """Releases the rows; `broken` ones stored NaN, of which nothing may reach the next rows in
        their slots."""


class MultiStepBackend(Backend, Protocol):
    """A backend that runs several greedy steps in one call, each row reading its own last token,
    until `end`."""

    end: int

    def multi_step(
        self, slots: Sequence[int], tokens: Sequence[int], steps: int, forbidden: Sequence[int] = ()
    ) -> list[StepOutput]:
        """Runs `steps` greedy steps of each row, without `forbidden` tokens. Columns after a row's
        `end` are undefined."""


class QueueingBackend(Backend, Protocol):
    """A backend whose device computes steps beside the host."""

    def queue_steps(
        self,
        slots: Sequence[int],
        tokens: Sequence[int],
        steps: int,
        forbidden: Sequence[int] = (),
        candidates: Sequence[int] = (),
        forced: Sequence[int] = (),
    ) -> Callable[[], list[StepOutput]]:
        """Queues `steps` steps of each row. A row with one of the `candidates` (the default) has in
        column 0 the token that the device chooses, the likeliest that is not `forbidden`; other
        rows have that number of likeliest tokens. A token of -1 is the one that the device chose
        for the row in the last queued steps. `forced` is as in `step`. Returns a function that
        waits for the outputs."""


class ForcingBackend(Backend, Protocol):
    """A backend that can read several known tokens of a row in one call."""

    def forced_steps(
        self, slots: Sequence[int], tokens: Sequence[Sequence[int]], forced: Sequence[Sequence[int]]
    ) -> Sequence[NDArray[np.float32]]:
        """Advances each row by several tokens, as in single steps. Returns the log-probabilities of
        each row's forced tokens, one for each token read."""


def supports_multi_step(backend: Backend) -> TypeGuard[MultiStepBackend]:
    """Returns whether the backend has `multi_step`. isinstance() of a runtime protocol takes 50 us,
    too long for a step."""
    return hasattr(backend, "multi_step")


def supports_queueing(backend: Backend) -> TypeGuard[QueueingBackend]:
    return hasattr(backend, "queue_steps")


def supports_forced_steps(backend: Backend) -> TypeGuard[ForcingBackend]:
    return hasattr(backend, "forced_steps")
