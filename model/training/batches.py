"""Batches: pairs of a shard in both directions, sampled by weight, bucketed by length, bounded by padded tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.training.augment import Augmenter
from model.training.recipe import Recipe
from model.training.sampling import rates
from model.training.shards import Shard

_ROWS = 512
"""Label rows are rounded up to a multiple of this, so that few shapes occur."""
IGNORED = -100
"""Label of the rows that fill up; the loss passes over it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """source (B, S) with tag and end; target (B, T) as the decoder reads it, from the start on. `rows` (N,) are the flat
    positions of `target` that have a label, `labels` (N,) those labels: padding enters no projection. `tokens` counts
    the labels, `source_tokens` the source tokens that are not padding."""

    source: Tensor
    target: Tensor
    rows: Tensor
    labels: Tensor
    tokens: int
    source_tokens: int

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """source, target, rows, labels."""
        return self.source, self.target, self.rows, self.labels

    def pinned(self) -> Batch:
        """A copy in page-locked memory, from which a GPU reads without holding up the host."""
        source, target, rows, labels = (tensor.pin_memory() for tensor in self.tensors())
        return Batch(source, target, rows, labels, self.tokens, self.source_tokens)

    def to(self, device: torch.device) -> Batch:
        """On `device`; the copy is only queued where the batch is pinned."""
        source, target, rows, labels = (tensor.to(device, non_blocking=True) for tensor in self.tensors())
        return Batch(source, target, rows, labels, self.tokens, self.source_tokens)


@dataclass(frozen=True, slots=True)
class Specials:
    """Ids around every sequence: pad, start, end, and each target language's tag."""

    pad: int
    start: int
    end: int
    tags: dict[str, int]


class Batches:
    """An endless, seeded stream of batches; `epoch` and the position in it are all it takes to resume."""

    def __init__(
        self, shard: Shard, recipe: Recipe, specials: Specials, augmenter: Augmenter | None, batch_tokens: int,
        *, rank: int = 0, ranks: int = 1,
    ) -> None:
        self._shard, self._recipe, self._specials = shard, recipe, specials
        self._augmenter, self._batch_tokens = augmenter, batch_tokens
        self._rank, self._ranks = rank, ranks
        self._ladder = width_ladder(batch_tokens, recipe.data.max_tokens + 2, recipe.train.align)
        self._rates = rates(shard, recipe)
        self._english_lengths, self._other_lengths = np.diff(shard.english_at), np.diff(shard.other_at)
        self._tags = np.array([specials.tags[name.rsplit(":", 1)[1]] for name in shard.groups])

    def stream(self, epoch: int = 0, skip: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Yields (epoch, index in the epoch, batch), from batch `skip` of `epoch` on, for ever."""
        while True:
            order = self._epoch(epoch)
            for index in range(skip, len(order)):
                if index % self._ranks == self._rank:
                    yield epoch, index, self._build(order[index], np.random.default_rng([epoch, index]))
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        """Groups of example numbers; example 2i is pair i from English, 2i + 1 the other way.

        Source and target of a group are padded to one width of the ladder. Where widths are divisors every group fills
        `batch_tokens` exactly: all products over its tokens have one shape, and kernels that are generated per shape are
        generated once. What does not fill a group of its width goes up to the next; the longest rest is dropped, each
        epoch another one.
        """
        random = np.random.default_rng([self._recipe.train.seed, epoch])
        examples = self._sample(random)
        random.shuffle(examples)
        width = np.searchsorted(self._ladder, np.maximum(*self._lengths(examples)))
        batches: list[NDArray[np.int64]] = []
        rest = examples[:0]
        for step, tokens in enumerate(self._ladder):
            waiting = np.concatenate([rest, examples[width == step]])
            size = self._batch_tokens // tokens
            full = len(waiting) // size * size
            batches.extend(np.split(waiting[:full], full // size) if full else [])
            rest = waiting[full:]
        if not batches:
            batches.append(rest)  # a corpus smaller than one batch
        shuffled = random.permutation(len(batches))
        return [batches[i] for i in shuffled]

    def _sample(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Examples of one epoch: each pair and direction as often as its rate says, fractions by chance."""
        wanted = self._rates[self._shard.group].reshape(-1)  # example 2i + way
        counts = np.floor(wanted + random.random(len(wanted))).astype(np.int64)
        return np.repeat(np.arange(len(wanted)), counts)

    def _lengths(self, examples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target lengths, tag and end included."""
        english, other = self._english_lengths[examples // 2], self._other_lengths[examples // 2]
        forward = examples % 2 == 0
        return np.where(forward, english, other) + 2, np.where(forward, other, english) + 1

    def _build(self, examples: NDArray[np.int64], random: np.random.Generator) -> Batch:
        """The batch of a group. Rows are filled together; only augmented pairs are handled one by one."""
        shard, specials = self._shard, self._specials
        pairs, reverse = examples // 2, examples % 2 == 1
        english = _Rows(shard.english, shard.english_at[pairs], self._english_lengths[pairs])
        other = _Rows(shard.other, shard.other_at[pairs], self._other_lengths[pairs])
        changed = self._augmented(english, other, reverse, random)
        sources = np.where(reverse, other.lengths, english.lengths)
        targets = np.where(reverse, english.lengths, other.lengths)
        for row, (source, target) in changed.items():
            sources[row], targets[row] = len(source), len(target)
        width = self._width(len(examples), int(max(sources.max() + 2, targets.max() + 1)))
        source_ids = np.full((len(examples), width + 2), specials.pad, dtype=np.int64)
        target_ids = source_ids.copy()
        for side, flags in ((english, ~reverse), (other, reverse)):
            side.write(source_ids, np.flatnonzero(flags))
            side.write(target_ids, np.flatnonzero(~flags))
        for row, (source, target) in changed.items():
            for ids, text in ((source_ids, source), (target_ids, target)):
                ids[row, 1:] = specials.pad
                ids[row, 1 : 1 + len(text)] = text[: width + 1]
        # Augmented text may have grown past the width that its group was made for: then it is cut.
        every = np.arange(len(examples))
        source_ids[every, np.minimum(sources + 1, width - 1)] = specials.end
        target_ids[every, np.minimum(targets + 1, width)] = specials.end
        source_ids[:, 0] = np.where(reverse, specials.tags["en"], self._tags[shard.group[pairs]])
        target_ids[:, 0] = specials.start
        return self._batch(source_ids[:, :width], target_ids[:, : width + 1])

    def _augmented(
        self, english: _Rows, other: _Rows, reverse: NDArray[np.bool_], random: np.random.Generator
    ) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Source and target of the rows that are rewritten."""
        if self._augmenter is None:
            return {}
        found = {}
        for row, kind in self._augmenter.choose(len(reverse), random):
            source, target = (other, english) if reverse[row] else (english, other)
            found[row] = self._augmenter.rewrite(kind, source.row(row), target.row(row), random)
        return found

    def _width(self, rows: int, longest: int) -> int:
        width = self._ladder[min(int(np.searchsorted(self._ladder, longest)), len(self._ladder) - 1)]
        return width if rows * width <= self._batch_tokens else self._batch_tokens // rows

    def _batch(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> Batch:
        """source (B, S) and target (B, T + 1), padded."""
        pad = self._specials.pad
        following = target[:, 1:].reshape(-1)
        real = np.flatnonzero(following != pad)
        filling = np.zeros(-len(real) % _ROWS, dtype=np.int64)
        labels = np.concatenate([following[real], filling + IGNORED])
        return Batch(
            torch.from_numpy(np.ascontiguousarray(source)),
            torch.from_numpy(np.ascontiguousarray(target[:, :-1])),
            torch.from_numpy(np.concatenate([real, filling])),
            torch.from_numpy(labels),
            len(real),
            int((source != pad).sum()),
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """One side of a batch's pairs: where each begins in the shard's ids, and its length."""

    ids: NDArray[np.uint16]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def row(self, index: int) -> NDArray[np.int64]:
        start = self.starts[index]
        return self.ids[start : start + self.lengths[index]].astype(np.int64)

    def write(self, target: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Copy these rows to the same rows of `target`, from column 1 on."""
        lengths = self.lengths[rows]
        total = int(lengths.sum())
        ends = np.cumsum(lengths)
        within = np.arange(total) - np.repeat(ends - lengths, lengths)
        found = self.ids[np.repeat(self.starts[rows], lengths) + within]
        target.reshape(-1)[np.repeat(rows * target.shape[1] + 1, lengths) + within] = found


def width_ladder(batch_tokens: int, longest: int, align: int = 0) -> list[int]:
    """Widths a batch may have, ascending, up to one that holds `longest`: multiples of `align`, or the divisors of
    `batch_tokens`.

    Raises ValueError where those lie so far apart that padding would waste the batch: 8400, 25200 or 55440 divide well.
    """
    if align:
        return list(range(align, longest + align, align))
    ladder = [width for width in range(4, batch_tokens + 1) if batch_tokens % width == 0]
    enough = next((i for i, width in enumerate(ladder) if width >= longest), None)
    if enough is None or any(b > 1.5 * a for a, b in pairwise([4, *ladder[: enough + 1]])):
        raise ValueError(f"batch_tokens {batch_tokens} has too few divisors up to {longest}: 8400, 25200 or 55440 divide well.")
    return ladder[: enough + 1]
