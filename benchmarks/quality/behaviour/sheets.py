"""The behaviour set, and sheets for blind readings: translations of all systems in random order, and their grades."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("sentences.tsv")
LANGUAGES = ("en", "de", "fr", "es")
GRADES = {"r": "right", "u": "understandable", "w": "wrong"}


def read_sentences() -> dict[str, dict[str, str]]:
    """Returns the text of each sentence by its id and by language."""
    lines = (line.split("\t") for line in FILE.read_text(encoding="utf-8").split("\n")[:-1])
    return {name: dict(zip(LANGUAGES, texts, strict=True)) for name, _, *texts in lines}


@dataclass(frozen=True, slots=True)
class Row:
    """One sentence on a sheet. `systems[k]` wrote `translations[k]`."""

    id: str
    source: str
    translations: tuple[str, ...]
    systems: tuple[str, ...]


def mixed(sources: Mapping[str, str], answers: Mapping[str, Mapping[str, str]], seed: int) -> list[Row]:
    """Returns a row per sentence with the systems in random order. `answers[system][id]` is a translation."""
    chance = random.Random(seed)
    rows = []
    for name, source in sources.items():
        systems = sorted(answers)
        chance.shuffle(systems)
        rows.append(Row(name, source, tuple(answers[system][name] for system in systems), tuple(systems)))
    return rows


def sheet(rows: Sequence[Row]) -> str:
    """Returns what readers see: id, source and one column per translation, without the names of the systems."""
    lines = ["\t".join((row.id, row.source, *row.translations)) for row in rows]
    return "\n".join(lines) + "\n"


def read_grades(text: str, rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Reads a reader's lines `id<TAB>letters`, one letter of `GRADES` per translation. Raises ValueError."""
    found = {}
    for line in text.splitlines():
        name, _, letters = line.partition("\t")
        found[name.strip()] = tuple(letters.strip().lower())
    for row in rows:
        grades = found.get(row.id, ())
        if len(grades) != len(row.systems) or not set(grades) <= set(GRADES):
            raise ValueError(f"{row.id} needs {len(row.systems)} letters of r, u and w.")
    return found


def count(rows: Sequence[Row], grades: Mapping[str, Sequence[str]]) -> dict[str, Counter[str]]:
    """Returns how often each system got each grade."""
    totals: dict[str, Counter[str]] = {system: Counter() for system in sorted({s for row in rows for s in row.systems})}
    for row in rows:
        for system, letter in zip(row.systems, grades[row.id], strict=True):
            totals[system][GRADES[letter]] += 1
    return totals


def agreement(rows: Sequence[Row], first: Mapping[str, Sequence[str]], second: Mapping[str, Sequence[str]]) -> float:
    """Returns the share of translations to which both readers gave the same grade."""
    same = [a == b for row in rows for a, b in zip(first[row.id], second[row.id], strict=True)]
    return sum(same) / len(same)
