"""The lexical shortlist of a trained model, from its training pairs: the pieces that a source piece
is translated to.

Each direction has its own lexicon, learned on pairs as the training sees them: drawn by the
recipe's weights and augmented. The lists do not depend on the model's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.shortlist import Shortlist
from training.data.augment import build_augmenter
from training.data.batches import PADDING, Batches
from training.data.corpus import SpecialIds, special_ids
from training.data.shards import Shard
from training.recipe import Recipe, RecipeError

Ids = NDArray[np.int64]
Lexicon = tuple[Ids, Ids, NDArray[np.float64]]
"""Sources, targets and probabilities: token sources[i] becomes token targets[i]. Sorted by source,
then target."""
_LONGEST = 60
"""Longer pairs are left out: their tokens have many possible origins."""
_BATCH_TOKENS = 25_200
_PAIRS = 150_000
"""Most pairs of each direction that are read."""
_FREQUENT = 600
"""Frequent pieces of a target language, which every source may be translated with."""
_BEST, _LEAST = 20, 0.001
"""Number of further targets of a source piece in a direction, and their least probability."""
_LIKELY = 0.02
"""Least probability of targets that `extended` adds."""
_SPACE = "\u2581"


def learn_lexicon(
    pairs: Sequence[tuple[Ids, Ids]], vocabulary: int, least: float = 0.0, iterations: int = 5
) -> Lexicon:
    """Returns the lexicon of `pairs` (source, target) without entries below the probability
    `least`: IBM model 1 (Brown et al. 1993), by expectation maximisation from equal probabilities.
    A token that occurs in all sources, such as the language tag, is Brown's empty word. Takes some
    30 bytes for each combination of a source and a target token of a pair."""
    source_lengths, target_lengths = (
        np.array([len(pair[side]) for pair in pairs]) for side in (0, 1)
    )
    # sources that each target token may come from
    lengths = np.repeat(source_lengths, target_lengths)
    starts = np.cumsum(lengths) - lengths
    cells = np.concatenate(
        [(target[:, None] + vocabulary * source).ravel() for source, target in pairs]
    )
    entries, entry = np.unique(cells, return_inverse=True)
    del cells
    sources, targets = np.divmod(entries, vocabulary)
    probabilities = np.ones(len(entries))
    for _ in range(iterations):
        shares = probabilities.astype(np.float32)[entry]
        shares /= np.repeat(np.add.reduceat(shares, starts), lengths)
        counts = np.bincount(entry, shares, len(entries))
        probabilities = counts / np.bincount(sources, counts, vocabulary)[sources]
    kept = probabilities >= least
    return sources[kept], targets[kept], probabilities[kept]


def build_shortlist(recipe: Recipe, folder: Path) -> Shortlist:
    """Returns the shortlist of the models that are trained in `folder`, with a table for each
    target language. Its common targets are frequent pieces, and digits, signs and bytes. Raises
    RecipeError if the training shard lacks pairs of a direction."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    ids = special_ids(processor, recipe.languages)
    vocabulary = processor.get_piece_size()
    shard = Shard.load(folder, "pairs")
    augmenter = build_augmenter(recipe, shard, processor)
    lexicons: dict[int, list[Lexicon]] = {tag: [] for tag in ids.tags.values()}
    shares = {tag: np.zeros(vocabulary) for tag in lexicons}
    for language in (language for language in recipe.languages if language != "en"):
        ways = {ids.tags["en"], ids.tags[language]}
        batches = Batches(shard, recipe, ids, augmenter, _BATCH_TOKENS, language=language)
        for tag, pairs in _read(batches, ids, ways).items():
            lexicons[tag].append(learn_lexicon(pairs, vocabulary, _LEAST))
            written = np.concatenate([target for _, target in pairs])
            shares[tag] += np.bincount(written, minlength=vocabulary) / len(written)
    always = _signs(processor)
    tables = [
        _table(tag, learned, _common(shares[tag], always, ids), vocabulary)
        for tag, learned in lexicons.items()
    ]
    counts = np.concatenate(
        [np.bincount(table // vocabulary, minlength=vocabulary) for table in tables]
    )
    targets = np.concatenate([table % vocabulary for table in tables]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Shortlist(offsets, targets, 0, True, vocabulary, tuple(lexicons), by_default=True)


def _read(batches: Batches, ids: SpecialIds, ways: set[int]) -> dict[int, list[tuple[Ids, Ids]]]:
    """Returns up to _PAIRS pairs by their language tag, one of `ways`. Only sources have tag and
    end."""
    by_tag: dict[int, list[tuple[Ids, Ids]]] = {tag: [] for tag in sorted(ways)}
    for epoch, _, batch in batches.stream():
        if epoch > 0:  # the shard has no more pairs
            break
        # without the start
        for source, target in zip(batch.source.numpy(), batch.target.numpy()[:, 1:], strict=True):
            pair = source[source != PADDING], target[(target != PADDING) & (target != ids.end)]
            pairs = by_tag[int(pair[0][0])]
            if len(pairs) < _PAIRS and len(pair[1]) > 0 and max(map(len, pair)) <= _LONGEST:
                pairs.append(pair)
        if all(len(pairs) >= _PAIRS for pairs in by_tag.values()):
            break
    if not all(by_tag.values()):
        raise RecipeError("The training shard lacks pairs of a direction.")
    return by_tag


def _signs(processor: sentencepiece.SentencePieceProcessor) -> NDArray[np.bool_]:
    """Returns True for pieces of one digit, one sign or one byte (V)."""
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    texts = (piece.lstrip(_SPACE) for piece in pieces)
    return np.array(
        [
            (len(text) == 1 and not text.isalpha()) or processor.is_byte(i)
            for i, text in enumerate(texts)
        ]
    )


def _common(share: NDArray[np.float64], always: NDArray[np.bool_], ids: SpecialIds) -> Ids:
    """Returns the most frequent targets, and those of `always` that occur: a character of several
    bytes stays whole."""
    chosen = always & (share > 0)
    chosen[np.argsort(-share, kind="stable")[:_FREQUENT]] = True
    chosen &= share > 0
    chosen[ids.end] = True
    return np.flatnonzero(chosen)


def extended(shortlist: Shortlist, pairs: Sequence[tuple[Ids, Ids]]) -> Shortlist:
    """Returns a shortlist that also allows what tokens are translated to in `pairs` (source,
    target) of one direction."""
    tag, vocabulary = int(pairs[0][0][0]), shortlist.vocabulary
    if shortlist.tags and tag not in shortlist.tags:
        return shortlist
    first = shortlist.tags.index(tag) * shortlist.sources if shortlist.tags else 0
    some = pairs[:: 1 + len(pairs) // _PAIRS]
    sources, targets, _ = learn_lexicon(some, max(vocabulary, shortlist.sources), _LIKELY)
    rows = np.repeat(np.arange(len(shortlist.offsets) - 1), np.diff(shortlist.offsets))
    both = [rows * vocabulary + shortlist.targets, (first + sources) * vocabulary + targets]
    entries = np.unique(np.concatenate(both))
    counts = np.bincount(entries // vocabulary, minlength=len(shortlist.offsets) - 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(shortlist, offsets=offsets, targets=(entries % vocabulary).astype(np.int32))


def _table(tag: int, lexicons: Sequence[Lexicon], common: Ids, vocabulary: int) -> Ids:
    """Returns the sorted entries of a table, as source * V + target: the common targets for the
    tag, and for every other token its _BEST further ones of each lexicon."""
    entries = [tag * vocabulary + common]
    for sources, targets, probabilities in lexicons:
        own = np.flatnonzero(~np.isin(targets, common) & (sources != tag))
        order = own[np.lexsort((targets[own], -probabilities[own], sources[own]))]
        order = order[
            np.arange(len(order)) - np.searchsorted(sources[order], sources[order]) < _BEST
        ]
        entries.append(sources[order] * vocabulary + targets[order])
    return np.unique(np.concatenate(entries))
