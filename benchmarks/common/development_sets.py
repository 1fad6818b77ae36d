"""Reads development sets: files `SET.en-XX.tsv` with one `english TAB other` pair per line, used in
both directions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"(?P<name>.+)\.en-(?P<language>[A-Za-z]{2,3}(-[A-Za-z]+)?)\.tsv")


@dataclass(frozen=True, slots=True)
class DevelopmentSet:
    """One set in one direction: `sources[i]` in language `source` has the reference `references[i]`
    in language `target`."""

    name: str
    source: str
    target: str
    sources: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def direction(self) -> str:
        """The language pair, for example `en-de`."""
        return f"{self.source}-{self.target}"


def read_sets(
    folder: Path, names: Sequence[str] = (), limit: int | None = None
) -> list[DevelopmentSet]:
    """Returns the sets in `folder` in both directions: those in `names` (all if empty), the first
    `limit` pairs of each.

    Raises ValueError if a name has no file or a line does not have two columns.
    """
    found: list[DevelopmentSet] = []
    for path in sorted(folder.glob("*.tsv")):
        match = _NAME.fullmatch(path.name)
        if match is None or (names and match["name"] not in names):
            continue
        pairs = _pairs(path, limit)
        english, other = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        found.append(DevelopmentSet(match["name"], "en", match["language"], english, other))
        found.append(DevelopmentSet(match["name"], match["language"], "en", other, english))
    missing = sorted(set(names) - {item.name for item in found})
    if missing or not found:
        raise ValueError(f"{folder} holds no SET.en-XX.tsv of {', '.join(missing) or 'any set'}.")
    return found


def choose(sets: Iterable[DevelopmentSet], directions: Iterable[str]) -> list[DevelopmentSet]:
    """Returns the sets whose direction (`en-de`) is in `directions`."""
    wanted = set(directions)
    return [item for item in sets if item.direction in wanted]


def _pairs(path: Path, limit: int | None) -> list[list[str]]:
    pairs: list[list[str]] = []
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if limit is not None and number > limit:
                break
            columns = line.rstrip("\n").split("\t")
            if len(columns) != 2:
                raise ValueError(
                    f"Line {number} of {path.name} has {len(columns)} columns; it needs two."
                )
            pairs.append(columns)
    return pairs
