"""Batches: pairs of a shard in both directions, sampled by weight, bucketed by length, bounded by padded tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.training.data.augment import Augmenter, number_of
from model.training.data.buckets import aligned, equal_products
from model.training.data.sampling import rates
from model.training.data.shards import Shard
from model.training.recipe import Recipe

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


@dataclass(frozen=True, slots=True)
class _Group:
    """A batch to be: example 2i is pair i from English, 2i + 1 the other way; `kinds` says how each is rewritten."""

    examples: NDArray[np.int64]
    kinds: NDArray[np.int64]
    source_width: int
    target_width: int


class Batches:
    """An endless, seeded stream of batches; `epoch` and the position in it are all it takes to resume."""

    def __init__(
        self, shard: Shard, recipe: Recipe, specials: Specials, augmenter: Augmenter | None, batch_tokens: int,
        *, rank: int = 0, ranks: int = 1,
    ) -> None:
        self._shard, self._recipe, self._specials = shard, recipe, specials
        self._augmenter, self._batch_tokens = augmenter, batch_tokens
        self._rank, self._ranks = rank, ranks
        self._rates = rates(shard, recipe)
        self._english_lengths, self._other_lengths = np.diff(shard.english_at), np.diff(shard.other_at)
        self._languages = [name.rsplit(":", 1)[1] for name in shard.groups]
        self._tags = np.array([specials.tags[language] for language in self._languages])
        self._addressing = np.array([name.rsplit(":", 1)[0] in recipe.data.formality for name in shard.groups])

    def stream(self, epoch: int = 0, skip: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Yields (epoch, index in the epoch, batch), from batch `skip` of `epoch` on, for ever."""
        while True:
            order = self._epoch(epoch)
            for index in range(skip, len(order)):
                if index % self._ranks == self._rank:
                    yield epoch, index, self._build(order[index], np.random.default_rng([epoch, index]))
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int) -> list[_Group]:
        """The batches of an epoch, in an order of its own."""
        random = np.random.default_rng([self._recipe.train.seed, epoch])
        examples = self._sample(random)
        random.shuffle(examples)
        sources, targets = self._lengths(examples)
        kinds = np.zeros(len(examples), dtype=np.int64)
        if self._augmenter is not None:
            kinds = self._augmenter.choose(len(examples), random)
            addressing = self._addressing[self._shard.group[examples // 2]] & (examples % 2 == 0)
            kinds[addressing & (kinds == 0)] = number_of("formality")
            sources, targets = self._augmenter.grown(kinds, sources, targets, self._recipe.data.max_tokens)
        align = self._recipe.train.align
        if align:
            buckets = aligned(sources, targets, self._batch_tokens, align)
        else:
            buckets = equal_products(sources, targets, self._batch_tokens, self._recipe.data.max_tokens + 2)
        return [
            _Group(examples[found.members], kinds[found.members], found.source_width, found.target_width)
            for found in (buckets[i] for i in random.permutation(len(buckets)))
        ]

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

    def _build(self, group: _Group, random: np.random.Generator) -> Batch:
        """The batch of a group. Rows are filled together; only augmented pairs are handled one by one."""
        shard, specials = self._shard, self._specials
        pairs, reverse = group.examples // 2, group.examples % 2 == 1
        english = _Rows(shard.english, shard.english_at[pairs], self._english_lengths[pairs])
        other = _Rows(shard.other, shard.other_at[pairs], self._other_lengths[pairs])
        sources = np.where(reverse, other.lengths, english.lengths)
        targets = np.where(reverse, english.lengths, other.lengths)
        source_ids = np.full((len(pairs), group.source_width), specials.pad, dtype=np.int64)
        target_ids = np.full((len(pairs), group.target_width + 1), specials.pad, dtype=np.int64)
        # Pairs to be rewritten are left out here: the source of a copied pair may be wider than the batch.
        unchanged = group.kinds == 0
        for side, flags in ((english, ~reverse), (other, reverse)):
            side.write(source_ids, np.flatnonzero(flags & unchanged))
            side.write(target_ids, np.flatnonzero(~flags & unchanged))
        for row in np.flatnonzero(group.kinds).tolist():
            before = (other, english) if reverse[row] else (english, other)
            originals = before[0].row(row), before[1].row(row)
            language = "en" if reverse[row] else self._languages[shard.group[pairs[row]]]
            source, target = self._rewritten(int(group.kinds[row]), *originals, random, language)
            if len(source) + 2 > group.source_width or len(target) + 1 > group.target_width:
                source, target = originals  # it grew past the widths that were foreseen
            sources[row], targets[row] = len(source), len(target)
            source_ids[row, 1 : 1 + len(source)] = source
            target_ids[row, 1 : 1 + len(target)] = target
        every = np.arange(len(pairs))
        source_ids[every, sources + 1] = specials.end
        target_ids[every, targets + 1] = specials.end
        source_ids[:, 0] = np.where(reverse, specials.tags["en"], self._tags[shard.group[pairs]])
        target_ids[:, 0] = specials.start
        return self._batch(source_ids, target_ids)

    def _rewritten(
        self, kind: int, source: NDArray[np.int64], target: NDArray[np.int64], random: np.random.Generator, language: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._augmenter is None:
            return source, target
        return self._augmenter.rewrite(kind, source, target, random, language)

    def _batch(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> Batch:
        """source (B, S) and target (B, T + 1), padded."""
        pad = self._specials.pad
        following = target[:, 1:].reshape(-1)
        real = np.flatnonzero(following != pad)
        filling = np.zeros(-len(real) % _ROWS, dtype=np.int64)
        labels = np.concatenate([following[real], filling + IGNORED])
        return Batch(
            torch.from_numpy(source),
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
