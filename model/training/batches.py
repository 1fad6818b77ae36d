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
from model.training.corpus import Shard, weight_of
from model.training.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Batch:
    """source (B, S) with tag and end; target (B, T + 1) with start and end, so input is [:, :-1] and labels [:, 1:].
    `tokens` counts the labels that are not padding."""

    source: Tensor
    target: Tensor
    tokens: int


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
        self._ladder = width_ladder(batch_tokens, recipe.data.max_tokens + 2)

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

        Source and target of a group are padded to one width of the ladder, and every group fills `batch_tokens` exactly:
        all products over its tokens have one shape, so kernels that are generated per shape are generated once. What
        does not fill a group of its width goes up to the next; the longest rest is dropped (each epoch another one).
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
        """Examples of one epoch: each pair and direction as often as its weight says, fractions by chance."""
        rates = np.zeros((len(self._shard.groups), 2))
        for i, name in enumerate(self._shard.groups):
            source, language = name.rsplit(":", 1)
            weight = weight_of(self._recipe, source, language)
            for way, direction in enumerate((f"en-{language}", f"{language}-en")):
                rates[i, way] = weight * float(self._recipe.data.directions.get(direction, 1.0))
        wanted = rates[self._shard.group].reshape(-1)  # example 2i + way
        counts = np.floor(wanted + random.random(len(wanted))).astype(np.int64)
        return np.repeat(np.arange(len(wanted)), counts)

    def _lengths(self, examples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target lengths, tag and end included."""
        english = np.diff(self._shard.english_at)[examples // 2]
        other = np.diff(self._shard.other_at)[examples // 2]
        forward = examples % 2 == 0
        return np.where(forward, english, other) + 2, np.where(forward, other, english) + 1

    def _build(self, examples: NDArray[np.int64], random: np.random.Generator) -> Batch:
        shard, specials = self._shard, self._specials
        sources: list[NDArray[np.int64]] = []
        targets: list[NDArray[np.int64]] = []
        for example in examples.tolist():
            pair, reverse = example // 2, example % 2
            english = shard.english[shard.english_at[pair] : shard.english_at[pair + 1]].astype(np.int64)
            other = shard.other[shard.other_at[pair] : shard.other_at[pair + 1]].astype(np.int64)
            language = shard.groups[shard.group[pair]].rsplit(":", 1)[1]
            source, target = (other, english) if reverse else (english, other)
            if self._augmenter is not None:
                source, target = self._augmenter(source, target, random)
            tag = specials.tags["en" if reverse else language]
            sources.append(np.concatenate([[tag], source, [specials.end]]))
            targets.append(np.concatenate([[specials.start], target, [specials.end]]))
        longest = max(*map(len, sources), *(len(target) - 1 for target in targets))
        # Augmented text may have grown past the width that its group was made for: then it is cut.
        width = self._ladder[min(int(np.searchsorted(self._ladder, longest)), len(self._ladder) - 1)]
        if len(examples) * width > self._batch_tokens:
            width = self._batch_tokens // len(examples)
        sources, targets = [row[:width] for row in sources], [row[: width + 1] for row in targets]
        return Batch(
            torch.from_numpy(_pad(sources, width, specials.pad)),
            torch.from_numpy(_pad(targets, width + 1, specials.pad)),
            sum(len(target) - 1 for target in targets),
        )


def width_ladder(batch_tokens: int, longest: int) -> list[int]:
    """Widths a batch may have, ascending, up to one that holds `longest`: the divisors of `batch_tokens`.

    Raises ValueError where they lie so far apart that padding would waste the batch: 8400, 25200 or 55440 divide well.
    """
    ladder = [width for width in range(4, batch_tokens + 1) if batch_tokens % width == 0]
    enough = next((i for i, width in enumerate(ladder) if width >= longest), None)
    if enough is None or any(b > 1.5 * a for a, b in pairwise([4, *ladder[: enough + 1]])):
        raise ValueError(f"batch_tokens {batch_tokens} has too few divisors up to {longest}: 8400, 25200 or 55440 divide well.")
    return ladder[: enough + 1]


def _pad(rows: list[NDArray[np.int64]], width: int, pad: int) -> NDArray[np.int64]:
    padded = np.full((len(rows), width), pad, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded
