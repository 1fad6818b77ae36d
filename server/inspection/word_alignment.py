"""The links between the words of an inspected sentence pair. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from model.analysis.attention_alignment import AlignmentLayer, Weights, alignment_map, coverage, reading_map, to_words
from server.inspection.types import InspectionResult
from server.text.projection import Link
from server.text.segmentation import Span
from server.translation.alignment import linked_words

AlignmentMethod = Literal["combined", "attention"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Links (source word, target word, probability) by `model.analysis.pair_alignment`.

    `method` "combined" uses all evidence, "attention" only the contributions of the layer `chosen`. `weights` (V, W) are
    these contributions between all words, and `coverage` is the attention that each source word received, summed over the
    target.
    """

    method: AlignmentMethod
    chosen: AlignmentLayer
    links: tuple[tuple[int, int, float], ...]
    coverage: tuple[float, ...]
    weights: Weights


def numbered(
    links: Mapping[Link, float], source: Mapping[Span, int], target: Mapping[Span, int]
) -> list[tuple[int, int, float]]:
    """Returns links between spans as links between the numbers of words, in their order. Other spans have none."""
    return sorted((source[a], target[b], weight) for (a, b), weight in links.items() if a in source and b in target)


def align_words(result: InspectionResult) -> Alignment:
    """Returns the word alignment of a result whose words were linked."""
    chosen = result.subject.leg.model.alignment
    soft = alignment_map(result.attention.maps, chosen)
    sources, targets = result.source.words, result.target.words
    links = linked_words(result.attention.links, sources, targets)
    source, target = (
        {(word.start, word.end): number for number, word in enumerate(side) if not word.special}
        for side in (sources, targets)
    )
    return Alignment(
        "combined" if result.combined else "attention",
        chosen,
        tuple(numbered(links, source, target)),
        tuple(coverage(reading_map(result.attention.maps, chosen), sources, targets)),
        to_words(soft, targets, sources),
    )
