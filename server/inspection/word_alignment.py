"""The links between the words of an inspected sentence pair. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.analysis.attention_alignment import AlignmentChoice, Link, Weights, alignment_map, coverage, target_to_source
from server.inspection.types import InspectionResult

AlignmentMethod = Literal["combined", "attention"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Links (source word, target word, weight).

    `method` "combined" is `model.analysis.pair_alignment`, whose weights are probabilities. "attention" links each
    target word to the source word with the largest weight in the heads of `choice`. `coverage` is the attention that
    each source word received in these heads, summed over the target.
    """

    method: AlignmentMethod
    choice: AlignmentChoice
    links: tuple[tuple[int, int, float], ...]
    coverage: tuple[float, ...]


def align_words(result: InspectionResult) -> Alignment:
    """Returns the word alignment: "combined" if the request collected the evidence for it, else "attention" by the
    heads that the model folder names."""
    choice = result.subject.leg.model.alignment
    soft = alignment_map(result.maps("cross"), choice)
    sources, targets = result.source.words, result.target.words
    combined = _combined_links(result, soft)
    links = target_to_source(soft, sources, targets) if combined is None else combined
    return Alignment(
        "attention" if combined is None else "combined",
        choice,
        tuple((source, target, weight) for (source, target), weight in sorted(links.items())),
        tuple(coverage(soft, sources, targets)),
    )


def _combined_links(result: InspectionResult, soft: Weights) -> dict[Link, float] | None:
    """Returns the links by all evidence, or None where the request collected none."""
    if result.sentence_pair is None or result.attention.evidence is None:
        return None
    sources, targets = result.source.words, result.target.words
    links = result.sentence_pair.links(result.attention.evidence, soft, sources, targets)
    source, target = (
        {(word.start, word.end): number for number, word in enumerate(side) if not word.special}
        for side in (sources, targets)
    )
    return {(source[a], target[b]): weight for (a, b), weight in links.items() if a in source and b in target}
