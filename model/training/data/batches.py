"""Batches of a shard's pairs in both directions: sampled by weight, grouped by length, limited in padded tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from model.training.data.augment import Augmenter, kind_number
from model.training.data.batch import IGNORED, Batch
from model.training.data.buckets import aligned, balanced
from model.training.data.sampling import sampling_rates
from model.training.data.shards import Shard
from model.training.data.vocabulary import SpecialIds
from model.training.recipe import Recipe, RecipeError

_LABEL_MULTIPLE = 512
"""The number of labels is rounded up to a multiple of this, so that few shapes occur."""


@dataclass(frozen=True, slots=True)
class _BatchPlan:
    """Examples of a batch before it is built.

    Example 2i is pair i from English, example 2i + 1 is pair i into English. `kinds` are the augmentation's kind numbers.
    """

    examples: NDArray[np.int64]
    kinds: NDArray[np.int64]
    source_width: int
    target_width: int


class Batches:
    """An endless stream of batches, determined by the recipe's seed, the epoch and the index of the batch in the epoch.

    A batch has at most `batch_tokens` padded tokens on each side. Rank `rank` of `ranks` gets every `ranks`-th batch, and
    the batches that the ranks get at the same time have similar sizes. An epoch that the ranks cannot divide evenly
    repeats up to `ranks` - 1 batches.
    """

    def __init__(
        self,
        shard: Shard,
        recipe: Recipe,
        ids: SpecialIds,
        augmenter: Augmenter | None,
        batch_tokens: int,
        *,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self._shard, self._recipe, self._ids = shard, recipe, ids
        self._augmenter, self._batch_tokens = augmenter, batch_tokens
        self._rank, self._ranks = rank, ranks
        self._rates = sampling_rates(shard, recipe)
        self._english_lengths, self._other_lengths = np.diff(shard.english_offsets), np.diff(shard.other_offsets)
        self._languages = [name.rsplit(":", 1)[1] for name in shard.groups]
        self._tags = np.array([ids.tags[language] for language in self._languages])
        sources = [name.rsplit(":", 1)[0] for name in shard.groups]
        self._always_formality = np.array([source in recipe.data.formality for source in sources])
        self._back_translated = np.array([source in recipe.data.back_translated for source in sources])

    def stream(self, epoch: int = 0, skip: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Yields (epoch, index in the epoch, batch) without end, from batch `skip` of `epoch` on."""
        while True:
            order = self._plan_epoch(epoch)
            for index in range(skip, len(order)):
                if index % self._ranks == self._rank:
                    yield epoch, index, self._build(order[index], np.random.default_rng([epoch, index]))
            epoch, skip = epoch + 1, 0

    def _plan_epoch(self, epoch: int) -> list[_BatchPlan]:
        """Returns the plans of an epoch's batches in random order. Raises RecipeError if the epoch has no pairs."""
        random = np.random.default_rng([self._recipe.train.seed, epoch])
        examples = self._sample(random)
        if not len(examples):
            raise RecipeError(f"Epoch {epoch} has no pairs; raise [data.weights] and [data.directions], or add text.")
        random.shuffle(examples)
        sources, targets = self._lengths(examples)
        kinds = np.zeros(len(examples), dtype=np.int64)
        if self._augmenter is not None:
            kinds = self._augmenter.choose_kinds(len(examples), random)
            groups = self._shard.group[examples // 2]
            formality = self._always_formality[groups] & (examples % 2 == 0)
            kinds[formality & (kinds == 0)] = kind_number("formality")
            kinds[self._back_translated[groups]] = kind_number("back_translated")
            sources, targets = self._augmenter.reserved_lengths(kinds, sources, targets, self._recipe.data.max_tokens)
        buckets = aligned(sources, targets, self._batch_tokens, self._recipe.train.align)
        order = random.permutation(len(buckets))
        if self._ranks > 1:
            # Every rank has the same number of batches in an epoch. Otherwise ranks would be at different batches from the
            # next epoch on, and the batches of a step would no longer be those that `balanced` put together.
            order = np.resize(order, -(-len(order) // self._ranks) * self._ranks)
            sizes = np.array([len(b.members) * (b.source_width + b.target_width) for b in buckets])
            order = balanced(order, sizes, self._ranks, random)
        return [
            _BatchPlan(examples[bucket.members], kinds[bucket.members], bucket.source_width, bucket.target_width)
            for bucket in (buckets[i] for i in order)
        ]

    def _sample(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Draws the examples of one epoch. A rate of 1.5 gives one or two copies with equal chance."""
        rates = self._rates[self._shard.group].reshape(-1)  # by example number: 2i from English, 2i + 1 into English
        counts = np.floor(rates + random.random(len(rates))).astype(np.int64)
        return np.repeat(np.arange(len(rates)), counts)

    def _lengths(self, examples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns source lengths with tag and end, and target lengths with the end."""
        english, other = self._english_lengths[examples // 2], self._other_lengths[examples // 2]
        forward = examples % 2 == 0
        return np.where(forward, english, other) + 2, np.where(forward, other, english) + 1

    def _build(self, plan: _BatchPlan, random: np.random.Generator) -> Batch:
        """Builds a batch. Unchanged pairs are written together, rewritten pairs one by one."""
        shard, ids = self._shard, self._ids
        pairs, reverse = plan.examples // 2, plan.examples % 2 == 1
        english = _Sentences(shard.english, shard.english_offsets[pairs], self._english_lengths[pairs])
        other = _Sentences(shard.other, shard.other_offsets[pairs], self._other_lengths[pairs])
        sources = np.where(reverse, other.lengths, english.lengths)
        targets = np.where(reverse, english.lengths, other.lengths)
        source_ids = np.full((len(pairs), plan.source_width), ids.pad, dtype=np.int64)
        target_ids = np.full((len(pairs), plan.target_width + 1), ids.pad, dtype=np.int64)
        # Pairs to be rewritten are left out here, because the original source may be wider than the batch.
        unchanged = plan.kinds == 0
        for side, flags in ((english, ~reverse), (other, reverse)):
            side.write(source_ids, np.flatnonzero(flags & unchanged))
            side.write(target_ids, np.flatnonzero(~flags & unchanged))
        for row in np.flatnonzero(plan.kinds).tolist():
            before = (other, english) if reverse[row] else (english, other)
            originals = before[0].ids_of(row), before[1].ids_of(row)
            language = "en" if reverse[row] else self._languages[shard.group[pairs[row]]]
            source, target = self._rewritten(int(plan.kinds[row]), *originals, random, language)
            if len(source) + 2 > plan.source_width or len(target) + 1 > plan.target_width:
                source, target = originals  # the rewritten pair does not fit the reserved widths
            sources[row], targets[row] = len(source), len(target)
            source_ids[row, 1 : 1 + len(source)] = source
            target_ids[row, 1 : 1 + len(target)] = target
        every = np.arange(len(pairs))
        source_ids[every, sources + 1] = ids.end
        target_ids[every, targets + 1] = ids.end
        source_ids[:, 0] = np.where(reverse, ids.tags["en"], self._tags[shard.group[pairs]])
        target_ids[:, 0] = ids.start
        return self._batch(source_ids, target_ids)

    def _rewritten(
        self,
        kind: int,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        random: np.random.Generator,
        language: str,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._augmenter is None:
            return source, target
        return self._augmenter.rewrite(kind, source, target, random, language)

    def _batch(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> Batch:
        """Returns the batch of padded ids source (B, S) and target (B, T + 1)."""
        pad = self._ids.pad
        next_ids = target[:, 1:].reshape(-1)
        real = np.flatnonzero(next_ids != pad)
        filling = np.zeros(-len(real) % _LABEL_MULTIPLE, dtype=np.int64)
        labels = np.concatenate([next_ids[real], filling + IGNORED])
        return Batch(
            torch.from_numpy(source),
            torch.from_numpy(np.ascontiguousarray(target[:, :-1])),
            torch.from_numpy(np.concatenate([real, filling])),
            torch.from_numpy(labels),
            len(real),
            int((source != pad).sum()),
        )


@dataclass(frozen=True, slots=True)
class _Sentences:
    """One side of a batch's pairs: the shard's ids, and start and length of each sentence in them."""

    ids: NDArray[np.uint16]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def ids_of(self, index: int) -> NDArray[np.int64]:
        """Returns the ids of one sentence."""
        start = self.starts[index]
        return self.ids[start : start + self.lengths[index]].astype(np.int64)

    def write(self, target: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Writes the sentences `rows` to the same rows of `target`, from column 1 on."""
        lengths = self.lengths[rows]
        total = int(lengths.sum())
        ends = np.cumsum(lengths)
        within = np.arange(total) - np.repeat(ends - lengths, lengths)
        ids = self.ids[np.repeat(self.starts[rows], lengths) + within]
        target.reshape(-1)[np.repeat(rows * target.shape[1] + 1, lengths) + within] = ids
