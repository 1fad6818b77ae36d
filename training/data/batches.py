"""Batches of a shard's pairs in both directions: sampled by weight, grouped by length, limited in
padded tokens."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training.data.augment import Augmenter, kind_number
from training.data.corpus import SpecialIds, weight_of
from training.data.shards import Shard
from training.recipe import Recipe, RecipeError

Ids = NDArray[np.int64]
PADDING = -1
"""Fills the rows of a batch. Models of other programs have no padding token of their own."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One padded batch of token ids. B batch, S source length, T target length.

    `source` (B, S) has the language tag and the end; `target` (B, T + 1) has the start and the end:
    the decoder reads all but its last column, and all but its first are the labels. `tokens` is the
    number of labels that are not padding.
    """

    source: Tensor
    target: Tensor
    tokens: int

    def pinned(self) -> Batch:
        """Returns a copy in page-locked memory, so that `to` does not block."""
        return Batch(self.source.pin_memory(), self.target.pin_memory(), self.tokens)

    def to(self, device: torch.device) -> Batch:
        """Returns a copy on `device`, asynchronous if the batch is pinned."""
        source, target = (
            tensor.to(device, non_blocking=True) for tensor in (self.source, self.target)
        )
        return Batch(source, target, self.tokens)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Indices of the examples of one batch, and the widths to which they are padded."""

    members: Ids
    source_width: int
    target_width: int


class Batches:
    """An endless stream of batches, determined by the recipe's seed, the epoch and the index in the
    epoch.

    Example 2i is pair i from English, example 2i + 1 is pair i into English. A batch has at most
    `batch_tokens` padded tokens on each side. Rank `rank` of `ranks` gets every `ranks`-th batch;
    an epoch that the ranks cannot divide evenly repeats up to `ranks` - 1 batches. With `language`,
    only its pairs are drawn. For `multiple` see `aligned`.
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
        language: str | None = None,
        multiple: int = 1,
    ) -> None:
        self._shard, self._recipe, self._ids = shard, recipe, ids
        self._augmenter, self._batch_tokens = augmenter, batch_tokens
        self._rank, self._ranks, self._multiple = rank, ranks, multiple
        self._rates = sampling_rates(shard, recipe)
        self._english_lengths, self._other_lengths = (
            np.diff(shard.english_offsets),
            np.diff(shard.other_offsets),
        )
        sources = [source for source, _ in shard.names]
        self._languages = [language for _, language in shard.names]
        if language is not None:
            self._rates[[other != language for other in self._languages]] = 0.0
        self._always_formality = np.array([source in recipe.data.formality for source in sources])
        self._back_translated = np.array(
            [source in recipe.data.back_translated for source in sources]
        )

    def stream(
        self, epoch: int = 0, skip: int = 0, part: int = 0, parts: int = 1
    ) -> Iterator[tuple[int, int, Batch]]:
        """Yields (epoch, index in the epoch, batch) without end, from batch `skip` of `epoch` on;
        of these every `parts`-th, from number `part` on."""
        number = count()
        while True:
            examples, kinds, buckets = self._plan_epoch(epoch)
            for index in range(skip, len(buckets)):
                if index % self._ranks == self._rank and next(number) % parts == part:
                    random = np.random.default_rng([epoch, index])
                    yield epoch, index, self._build(examples, kinds, buckets[index], random)
            epoch, skip = epoch + 1, 0

    def _plan_epoch(self, epoch: int) -> tuple[Ids, Ids, list[Bucket]]:
        """Returns an epoch's examples, the numbers of their augmentation, and its batches in random
        order. Raises RecipeError if the epoch has no pairs."""
        random = np.random.default_rng([self._recipe.train.seed, epoch])
        examples = self._sample(random)
        if not len(examples):
            raise RecipeError(f"Epoch {epoch} has no pairs; raise [data.weights], or add text.")
        random.shuffle(examples)
        sources, targets = self._lengths(examples)
        kinds = np.zeros(len(examples), dtype=np.int64)
        if self._augmenter is not None:
            kinds = self._augmenter.choose_kinds(len(examples), random)
            groups = self._shard.group[examples // 2]
            formality = self._always_formality[groups] & (examples % 2 == 0)
            kinds[formality & (kinds == 0)] = kind_number("formality")
            kinds[self._back_translated[groups]] = kind_number("back_translated")
            sources, targets = self._augmenter.reserved_lengths(
                kinds, sources, targets, self._recipe.data.max_tokens
            )
        buckets = aligned(
            sources, targets, self._batch_tokens, self._recipe.train.align, self._multiple
        )
        order = random.permutation(len(buckets))
        # Every rank has the same number of batches in an epoch, so that all begin the next one at
        # the same step.
        order = np.resize(order, -(-len(order) // self._ranks) * self._ranks)
        return examples, kinds, [buckets[i] for i in order]

    def _sample(self, random: np.random.Generator) -> Ids:
        """Draws the examples of one epoch. A rate of 1.5 gives one or two copies with equal
        chance."""
        # by example number: 2i from English, 2i + 1 into English
        rates = self._rates[self._shard.group].reshape(-1)
        counts = np.floor(rates + random.random(len(rates))).astype(np.int64)
        return np.repeat(np.arange(len(rates)), counts)

    def _lengths(self, examples: Ids) -> tuple[Ids, Ids]:
        """Returns source lengths with tag and end, and target lengths with the end."""
        english, other = self._english_lengths[examples // 2], self._other_lengths[examples // 2]
        forward = examples % 2 == 0
        return np.where(forward, english, other) + 2, np.where(forward, other, english) + 1

    def _build(
        self, examples: Ids, kinds: Ids, bucket: Bucket, random: np.random.Generator
    ) -> Batch:
        ids = self._ids
        sources = np.full((len(bucket.members), bucket.source_width), PADDING, dtype=np.int64)
        targets = np.full((len(bucket.members), bucket.target_width + 1), PADDING, dtype=np.int64)
        for row, member in enumerate(bucket.members.tolist()):
            pair, reverse = divmod(int(examples[member]), 2)
            language = self._languages[self._shard.group[pair]]
            source, target = self._shard.pair(pair)
            if reverse:
                source, target, language = target, source, "en"
            if self._augmenter is not None and kinds[member]:
                rewritten = self._augmenter.rewrite(
                    int(kinds[member]), source, target, random, language
                )
                # A rewritten pair that does not fit the reserved widths is left as it was.
                if (
                    len(rewritten[0]) + 2 <= bucket.source_width
                    and len(rewritten[1]) + 1 <= bucket.target_width
                ):
                    source, target = rewritten
            sources[row, : len(source) + 2] = [ids.tags[language], *source, ids.end]
            targets[row, : len(target) + 2] = [ids.start, *target, ids.end]
        tokens = int((targets[:, 1:] != PADDING).sum())
        return Batch(torch.from_numpy(sources), torch.from_numpy(targets), tokens)


def aligned(
    sources: Ids, targets: Ids, batch_tokens: int, align: int, multiple: int = 1
) -> list[Bucket]:
    """Returns buckets whose widths are the smallest multiples of `align` that fit their examples:
    few different shapes, which are faster on GPUs. Neither side has more than `batch_tokens`.
    Buckets of more than `multiple` examples have a multiple of it, except the last one."""
    wide_sources, wide_targets = (-(-lengths // align) * align for lengths in (sources, targets))
    # stable: by target width, then by source width
    order = np.lexsort((wide_sources, wide_targets))
    buckets: list[Bucket] = []
    at = 0
    while at < len(order):
        rows = max(1, batch_tokens // int(wide_targets[order[at]]))
        widest = order[at : at + rows]
        rows = max(
            1, batch_tokens // int(max(wide_targets[widest].max(), wide_sources[widest].max()))
        )
        rows -= rows % multiple if rows > multiple else 0
        members = order[at : at + rows]
        # A single left-over example is dropped: layers compiled for two or more rows would be
        # compiled again for one.
        if len(members) > 1 or not buckets:
            buckets.append(
                Bucket(members, int(wide_sources[members].max()), int(wide_targets[members].max()))
            )
        at += rows
    return buckets


class BatchProcesses:
    """The batches of `batches` in the same order, made in `count` processes, for a device that
    trains faster than one process makes them. What a process raises is raised here."""

    def __init__(self, batches: Batches, count: int) -> None:
        self._batches, self._count = batches, count

    def stream(
        self, epoch: int = 0, skip: int = 0
    ) -> Generator[tuple[int, int, Batch], None, None]:
        """Yields what `Batches.stream` yields. The processes end with the iterator."""
        part: IterableDataset[tuple[int, int, Batch]] = _Part(self._batches, epoch, skip)
        # The loader asks its processes in turn, so the order is that of one process.
        yield from DataLoader(part, batch_size=None, num_workers=self._count)


class _Part(IterableDataset[tuple[int, int, Batch]]):
    """The batches that this process makes."""

    def __init__(self, batches: Batches, epoch: int, skip: int) -> None:
        self._batches, self._epoch, self._skip = batches, epoch, skip

    def __iter__(self) -> Iterator[tuple[int, int, Batch]]:
        process = get_worker_info()
        if process is None:
            raise RuntimeError("This part of the batches is for a process of a DataLoader.")
        return self._batches.stream(self._epoch, self._skip, process.id, process.num_workers)


def sampling_rates(shard: Shard, recipe: Recipe) -> NDArray[np.float64]:
    """Returns how often per epoch a pair of each group is used from English and into English: (G,
    2). With temperature T a direction of n tokens gets a share of the epoch proportional to n^(1/T)
    (Arivazhagan et al. 2019, section 4.2); the largest direction is not changed. Raises RecipeError
    if `one_way` or `back_translated` names a source without pairs."""
    rates = np.zeros((len(shard.groups), 2))
    languages, sources = [name[1] for name in shard.names], {name[0] for name in shard.names}
    for key in ("one_way", "back_translated"):
        if unknown := sorted(getattr(recipe.data, key).keys() - sources):
            raise RecipeError(
                f"[data.{key}] names {unknown[0]}, and no pair of the files has this source."
            )
    only = {**recipe.data.one_way, **recipe.data.back_translated}
    for i, (source, language) in enumerate(shard.names):
        for way, direction in enumerate((f"en-{language}", f"{language}-en")):
            if only.get(source, direction) == direction:
                rates[i, way] = weight_of(recipe, source)
    if recipe.data.temperature == 1.0:
        return rates
    tokens = rates * target_tokens(shard)
    totals = {
        language: tokens[[i for i, name in enumerate(languages) if name == language]].sum(0)
        for language in languages
    }
    largest = max(float(total.max()) for total in totals.values())
    for i, language in enumerate(languages):
        share = np.maximum(totals[language], 1.0) / largest
        rates[i] *= share ** (1.0 / recipe.data.temperature - 1.0)
    return rates


def target_tokens(shard: Shard) -> NDArray[np.float64]:
    """Returns the target tokens of each group, with ends of sentence, from and into English: (G,
    2)."""
    sides = (np.diff(shard.other_offsets) + 1, np.diff(shard.english_offsets) + 1)
    return np.stack([np.bincount(shard.group, side, len(shard.groups)) for side in sides], axis=1)
