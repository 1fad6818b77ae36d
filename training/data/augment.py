"""Augmentation: variants of training pairs that occur in real input but rarely in the corpus, such as
masked spans (numbers, names, addresses and `{x}` of both sides become `<phN>`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.symbols import BACK_TRANSLATED, PLACEHOLDERS, form_of_address
from training.data.shards import Shard
from training.recipe import Recipe

_KINDS = (
    "lower",
    "upper",
    "bare",
    "copy",
    "names",
    "numbers",
    "placeholders",
    "formality",
    "back_translated",
)
_GROWTH = {"lower": 1.2, "upper": 2.2, "names": 1.2}
"""Reserved length of a rewritten side relative to the original."""
_WITH_SYMBOL = [1 + _KINDS.index(kind) for kind in ("formality", "back_translated")]
"""Numbers of the kinds that put one symbol before the source."""
_NAME = re.compile(r"\b[A-ZÀ-Þ][a-zß-ÿ]{2,}\b")
_NUMBER = re.compile(r"\d+")
_WORD = r"[A-ZÀ-Þ][\w'’-]*\w"
_SPAN = re.compile(
    rf"""
    https?://[^\s<>"]*[\w/] | www\.[^\s<>"]*[\w/] | [\w.+-]+@[\w-]+(?:\.\w+)+   # addresses
    | \{{[^{{}}\s]{{1,30}}\}} | %[sd]                                          # variables of a program
    | (?<![\w.,])\d+(?:[.,:/-]\d+)*(?![\w%]|[.,:/-]\d)                         # numbers
    | \b{_WORD}(?:[ ]{_WORD})*                                                 # names, of several words too
    """,
    re.VERBOSE,
)
_NAMED = re.compile(rf"\b{_WORD}")
_MASKED_SHARE = 0.75
"""Share of the shared spans that are masked, so that texts have masked and plain spans."""


class Augmenter:
    """Rewrites a share of the pairs, token ids without special ids. `rates` is the share of each
    kind:

    - "lower": the source in lower case; "upper": both sides in capitals.
    - "bare": both sides without the final full stop.
    - "copy": the target also as the source, for input that is already in the target language.
    - "names": names that occur on both sides are replaced by others of `names`.
    - "numbers": numbers that occur on both sides get other digits.
    - "placeholders": spans that occur on both sides are masked (`mask_shared_spans`).
    - "formality": the symbol of the target's form of address, if its words decide it, before the
      source.
    - "back_translated": the symbol of text that a model wrote before the source, without a share:
      the recipe's `back_translated` sources always get it.

    A pair stays unchanged if its kind does not apply to it. Raises ValueError for an unknown kind.
    """

    def __init__(
        self,
        processor: sentencepiece.SentencePieceProcessor,
        rates: Mapping[str, float],
        names: Sequence[str] = (),
    ) -> None:
        if unknown := sorted(set(rates) - (set(_KINDS) - {"back_translated"})):
            raise ValueError(f"[data.augment] has unknown kinds: {', '.join(unknown)}.")
        self._processor: Any = processor
        self._rates = [rates.get(kind, 0.0) for kind in _KINDS]
        self._names, self._name_set = names, frozenset(names)

    def choose_kinds(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draws the kind number for each of `count` pairs; 0 leaves a pair unchanged."""
        kinds = np.searchsorted(np.cumsum(self._rates), random.random(count), side="right")
        return np.asarray((kinds + 1) % (len(_KINDS) + 1), dtype=np.int64)

    def reserved_lengths(
        self,
        kinds: NDArray[np.int64],
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        longest: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the source and target lengths to reserve for pairs of these kinds and lengths:
        capitals, for example, take more pieces. No length grows past `longest`."""
        factors = np.array([1.0, *(_GROWTH.get(kind, 1.0) for kind in _KINDS)])[kinds]
        sources, targets = (
            np.maximum(lengths, np.minimum(np.ceil(lengths * factors), longest)).astype(np.int64)
            for lengths in (np.where(kinds == kind_number("copy"), targets + 1, sources), targets)
        )
        return sources + np.isin(kinds, _WITH_SYMBOL), targets

    def rewrite(
        self,
        number: int,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        random: np.random.Generator,
        language: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns source and target rewritten by kind `number`, or unchanged. `language` is the
        target language."""
        kind = _KINDS[number - 1]
        if kind == "copy":
            return target, target
        if kind in ("formality", "back_translated"):
            symbol = (
                BACK_TRANSLATED
                if kind == "back_translated"
                else form_of_address(self._text(target), language)
            )
            return (
                source
                if symbol is None
                else np.insert(source, 0, self._processor.piece_to_id(symbol))
            ), target
        before = self._text(source), self._text(target)
        left, right = before
        if kind == "lower":
            left = left.lower()
        elif kind == "upper":
            left, right = left.upper(), right.upper()
        elif kind == "bare":
            if left.endswith(".") and right.endswith("."):
                left, right = left[:-1], right[:-1]
        elif kind == "placeholders":
            left, right = mask_shared_spans(left, right, random, self._name_set)
        else:
            left, right = self._replace_shared(kind, left, right, random)
        if (left, right) == before:
            return source, target
        return self._ids(left), self._ids(right)

    def _replace_shared(
        self, kind: str, left: str, right: str, random: np.random.Generator
    ) -> tuple[str, str]:
        """Replaces names or numbers that occur equally often on both sides."""
        pattern = _NAME if kind == "names" else _NUMBER
        left_counts, right_counts = Counter(pattern.findall(left)), Counter(pattern.findall(right))
        new: dict[str, str] = {}
        for span, count in left_counts.items():
            if right_counts[span] != count:
                continue
            if kind == "numbers":
                # 0 and 1 stay, because the noun after 1 is singular.
                new[span] = span if int(span) < 2 else _other_digits(span, random)
            elif span in self._name_set:
                new[span] = self._names[int(random.integers(len(self._names)))]
        if not new:
            return left, right
        left, right = (
            pattern.sub(lambda match: new.get(match[0], match[0]), text) for text in (left, right)
        )
        return left, right

    def _text(self, ids: NDArray[np.int64]) -> str:
        return str(self._processor.decode(ids.tolist()))

    def _ids(self, text: str) -> NDArray[np.int64]:
        return np.array(self._processor.encode(text), dtype=np.int64)


def kind_number(kind: str) -> int:
    return 1 + _KINDS.index(kind)


def build_augmenter(recipe: Recipe, shard: Shard, processor: Any) -> Augmenter | None:
    """Returns the augmenter of a training, with the names of its shard; None if it rewrites no
    pairs."""
    rates = recipe.data.augment
    if not (rates or recipe.data.back_translated):
        return None
    return Augmenter(
        processor,
        rates,
        shared_names(shard, processor) if rates.get("names") or rates.get("placeholders") else (),
    )


def shared_names(
    shard: Shard,
    processor: sentencepiece.SentencePieceProcessor,
    *,
    pairs: int = 200_000,
    least: int = 2,
) -> list[str]:
    """Returns the capitalised words that occur on both sides of at least `least` pairs, except as
    the first word. About `pairs` pairs of the shard are searched."""
    counts: Counter[str] = Counter()
    step = max(1, len(shard.group) // pairs)
    for i in range(0, len(shard.group), step):
        english, other = (processor.decode(ids.tolist()) for ids in shard.pair(i))
        inside = {match[0] for match in _NAME.finditer(english) if match.start() > 0}
        counts.update(inside & {match[0] for match in _NAME.finditer(other) if match.start() > 0})
    return sorted(name for name, count in counts.items() if count >= least)


def _other_digits(number: str, random: np.random.Generator) -> str:
    """Returns a random number above 1 with as many digits, and a leading zero if `number` has
    one."""
    first = str(random.integers(1, 10)) if number[0] != "0" else "0"
    new = first + "".join(str(digit) for digit in random.integers(0, 10, len(number) - 1))
    return new if int(new) > 1 else number


def mask_shared_spans(
    left: str, right: str, random: np.random.Generator, names: Collection[str] = ()
) -> tuple[str, str]:
    """Returns both texts with most of the spans that occur equally often in both replaced by
    placeholders. Every distinct span gets its own number, drawn from 1 to 9. A single word at the
    beginning of a text counts as a name only if it is in `names`."""
    free = [PLACEHOLDERS[i] for i in random.permutation(len(PLACEHOLDERS))]
    kept: set[str] = set()  # words of spans that were drawn to stay
    for pattern in (_SPAN, _NAMED):  # names of several words first, then word by word
        masks: dict[str, str] = {}
        for span, count in Counter(pattern.findall(left)).items():
            if not free or span in kept or not _occurs_equally(span, count, left, right, pattern):
                continue
            if (
                _NAMED.fullmatch(span)
                and span not in names
                and (left.startswith(span) or right.startswith(span))
            ):
                continue
            if random.random() < _MASKED_SHARE:
                masks[span] = free.pop()
            else:
                kept.update(span.split())
        left, right = _replace(pattern, left, masks), _replace(pattern, right, masks)
    return left, right


def _occurs_equally(span: str, count: int, left: str, right: str, pattern: re.Pattern[str]) -> bool:
    """Returns whether the span occurs `count` times in both texts, never inside another span."""
    return pattern.findall(right).count(span) == left.count(span) == right.count(span) == count


def _replace(pattern: re.Pattern[str], text: str, masks: Mapping[str, str]) -> str:
    return pattern.sub(lambda match: masks.get(match[0], match[0]), text)
