"""Sampling rates of pairs: weights of sources, and a temperature between directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from training.data.corpus import weight_of
from training.data.shards import Shard
from training.recipe import Recipe, RecipeError


def sampling_rates(shard: Shard, recipe: Recipe) -> NDArray[np.float64]:
    """Returns how often per epoch a pair of each group is used from English and into English: (G,
    2).

    With temperature T a direction of n tokens gets a share of the epoch proportional to n^(1/T). 1
    changes nothing; larger values repeat small directions more often (Arivazhagan et al. 2019,
    section 4.2). The largest direction is not changed. Raises RecipeError if `one_way` or
    `back_translated` names a source without pairs.
    """
    rates = np.zeros((len(shard.groups), 2))
    languages = [name.rsplit(":", 1)[1] for name in shard.groups]
    sources = {name.rsplit(":", 1)[0] for name in shard.groups}
    for key in ("one_way", "back_translated"):
        if unknown := sorted(getattr(recipe.data, key).keys() - sources):
            raise RecipeError(
                f"[data.{key}] names {unknown[0]}, and no pair of the files has this source."
            )
    only = {**recipe.data.one_way, **recipe.data.back_translated}
    for i, (name, language) in enumerate(zip(shard.groups, languages, strict=True)):
        source = name.rsplit(":", 1)[0]
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
    """Returns the target tokens of each group, with ends of sentence, from English and into
    English: (G, 2)."""
    sides = (np.diff(shard.other_offsets) + 1, np.diff(shard.english_offsets) + 1)
    return np.stack([np.bincount(shard.group, side, len(shard.groups)) for side in sides], axis=1)
