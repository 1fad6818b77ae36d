"""Links the words of a translation to the words of its source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from model.analysis.attention_alignment import Word
from model.analysis.pair_alignment import PairWords, WordedSentence, WordLink, compared, spellings
from server.text.projection import Link
from server.translation.catalog import Leg


def compares_words(leg: Leg) -> bool:
    """Returns whether the model can compare words of both languages: it translates both directions
    with one vocabulary and without a language tag in the target."""
    model = leg.model
    return (
        (leg.target, leg.source) in model.pairs
        and model.tokenizer.joint
        and leg.first_token is None
    )


def pair_words(
    leg: Leg,
    ids: tuple[tuple[int, ...], tuple[int, ...]],
    sides: tuple[Sequence[Word], Sequence[Word]],
    *,
    combined: bool = True,
) -> PairWords:
    """Returns the input of the worker for links between the words of both `sides`, encoded as
    `ids`. If `combined`, and the model can compare the words and read both sides, the links use all
    evidence, else attention and spelling."""
    real = [[word for word in side if not word.special] for side in sides]
    runs = [tuple([(word.pieces[0], word.pieces[-1] + 1) for word in side]) for side in real]
    texts = [[word.text for word in side] for side in real]
    marks, genitives, alike = compared(texts[0], texts[1])
    read = None
    if combined and compares_words(leg):
        target, place = leg.model.tokenizer.as_source(ids[1], leg.source)
        shifted = tuple([(first + place, end + place) for first, end in runs[1]])
        if max(len(ids[0]), len(target)) <= leg.model.max_length:
            first, second = [leg.model.tokenizer.beginnings(spellings(side)) for side in texts]
            read = WordedSentence(ids[0], runs[0], first), WordedSentence(target, shifted, second)
    return PairWords((runs[0], runs[1]), marks, alike, read, genitives)


def linked_words(
    links: Iterable[WordLink], sources: Sequence[Word], targets: Sequence[Word]
) -> dict[Link, float]:
    """Returns links with the characters of their words."""
    first, second = (
        [(word.start, word.end) for word in side if not word.special] for side in (sources, targets)
    )
    return {(first[i], second[j]): probability for i, j, probability in links}
