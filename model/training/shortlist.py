"""The lexical shortlist of a trained model, from its training pairs: the pieces that a source piece is translated to.

Each direction has its own lexicon (`lexicon`), learned on pairs as the training sees them: drawn by the recipe's weights and
augmented. The lists depend on the vocabulary and the pairs, not on the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.shortlist import Shortlist
from model.training.data.batches import Batches
from model.training.data.shards import Shard
from model.training.data.vocabulary import SpecialIds, special_ids
from model.training.lexicon import Lexicon, TokenPairs, learn_lexicon
from model.training.loop.trainer import build_augmenter
from model.training.recipe import Recipe, RecipeError

_LONGEST = 60
"""Pairs with more tokens on a side are left out: their tokens have many possible origins."""
_BATCH_TOKENS = 25_200
_SPACE = "\u2581"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSizes:
    """`pairs` of each direction are read. Each target language has common targets: its `frequent` pieces and its digits,
    signs and bytes. A source piece lists its `best` further targets with at least the probability `least`."""

    pairs: int = 150_000
    best: int = 20
    least: float = 0.001
    frequent: int = 600


def build_shortlist(recipe: Recipe, folder: Path, sizes: ListSizes) -> Shortlist:
    """Returns the shortlist of the models that are trained in `folder`, with a table for each target language.

    Raises RecipeError where the training shard lacks pairs of a direction.
    """
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    ids = special_ids(processor, recipe.languages)
    vocabulary = processor.get_piece_size()
    shard = Shard.load(folder, "pairs")
    augmenter = build_augmenter(recipe, folder, processor)
    lexicons: dict[int, list[Lexicon]] = {tag: [] for tag in ids.tags.values()}
    shares = {tag: np.zeros(vocabulary) for tag in lexicons}
    for language in (language for language in recipe.languages if language != "en"):
        ways = {ids.tags["en"], ids.tags[language]}
        batches = Batches(shard, recipe, ids, augmenter, _BATCH_TOKENS, language=language)
        for tag, pairs in _read(batches, ids, ways, sizes.pairs).items():
            lexicons[tag].append(learn_lexicon(pairs, vocabulary).likely(sizes.least))
            shares[tag] += np.bincount(pairs.targets, minlength=vocabulary) / len(pairs.targets)
    always = _signs(processor)
    tables = [
        _table(tag, learned, _common(shares[tag], always, ids, sizes.frequent), sizes.best, vocabulary)
        for tag, learned in lexicons.items()
    ]
    counts = np.concatenate([np.bincount(table // vocabulary, minlength=vocabulary) for table in tables])
    targets = np.concatenate([table % vocabulary for table in tables]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Shortlist(offsets, targets, 0, True, vocabulary, tuple(lexicons), by_default=True)


def _read(batches: Batches, ids: SpecialIds, ways: set[int], limit: int) -> dict[int, TokenPairs]:
    """Returns up to `limit` pairs by their language tag, one of `ways`. Only the sources have the tag and the end."""
    by_tag: dict[int, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {tag: [] for tag in sorted(ways)}
    for epoch, _, batch in batches.stream():
        if epoch > 0:  # the shard has no more pairs
            break
        for source, target in zip(batch.source.numpy(), batch.target.numpy()[:, 1:], strict=True):  # without the start
            pair = source[source != ids.pad], target[(target != ids.pad) & (target != ids.end)]
            pairs = by_tag[int(pair[0][0])]
            if len(pairs) < limit and len(pair[1]) > 0 and max(map(len, pair)) <= _LONGEST:
                pairs.append(pair)
        if all(len(pairs) >= limit for pairs in by_tag.values()):
            break
    if not all(by_tag.values()):
        raise RecipeError("The training shard lacks pairs of a direction.")
    return {tag: _joined(pairs) for tag, pairs in by_tag.items()}


def _joined(pairs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> TokenPairs:
    sources, targets = zip(*pairs, strict=True)
    lengths = [np.array([len(ids) for ids in side]) for side in (sources, targets)]
    return TokenPairs(np.concatenate(sources), np.concatenate(targets), lengths[0], lengths[1])


def _signs(processor: sentencepiece.SentencePieceProcessor) -> NDArray[np.bool_]:
    """Returns True for pieces of one digit, one sign or one byte (V)."""
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    texts = (piece.lstrip(_SPACE) for piece in pieces)
    return np.array([(len(text) == 1 and not text.isalpha()) or processor.is_byte(i) for i, text in enumerate(texts)])


def _common(share: NDArray[np.float64], always: NDArray[np.bool_], ids: SpecialIds, frequent: int) -> NDArray[np.int64]:
    """Returns the most frequent targets, and those of `always` that occur: a character of several bytes stays whole."""
    chosen = always & (share > 0)
    chosen[np.argsort(-share, kind="stable")[:frequent]] = True
    chosen &= share > 0
    chosen[ids.end] = True
    return np.flatnonzero(chosen)


def _table(
    tag: int, lexicons: Sequence[Lexicon], common: NDArray[np.int64], best: int, vocabulary: int
) -> NDArray[np.int64]:
    """Returns the entries of a table in order, as source * V + target: the common targets for the tag, and for every
    other token its `best` further ones of each lexicon."""
    entries = [tag * vocabulary + common]
    for lexicon in lexicons:
        own = np.flatnonzero(~np.isin(lexicon.targets, common) & (lexicon.sources != tag))
        order = own[np.lexsort((lexicon.targets[own], -lexicon.probabilities[own], lexicon.sources[own]))]
        sources = lexicon.sources[order]
        order = order[np.arange(len(order)) - np.searchsorted(sources, sources) < best]
        entries.append(lexicon.sources[order] * vocabulary + lexicon.targets[order])
    return np.unique(np.concatenate(entries))
