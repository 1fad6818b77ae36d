"""Language pairs of a model that translates between all of its languages, without a list of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AllPairs(Collection[tuple[str, str]]):
    """Every pair of a source and another target: 200 languages make 39,800 pairs."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __contains__(self, pair: object) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 2:
            return False
        source, target = pair
        return source != target and source in self.sources and target in self.targets

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((source, target) for source in self.sources for target in self.targets if source != target)

    def __len__(self) -> int:
        return len(self.sources) * len(self.targets) - len(set(self.sources) & set(self.targets))


Pairs = tuple[tuple[str, str], ...] | AllPairs


def targets_by_source(pairs: Pairs) -> dict[str, frozenset[str]]:
    """Returns source -> targets. The sets of AllPairs are one object, and contain the source itself."""
    if isinstance(pairs, AllPairs):
        return dict.fromkeys(pairs.sources, frozenset(pairs.targets))
    found: dict[str, set[str]] = {}
    for source, target in pairs:
        found.setdefault(source, set()).add(target)
    return {source: frozenset(targets) for source, targets in found.items()}
