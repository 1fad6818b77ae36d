"""Reads the behaviour set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("sentences.tsv")
LANGUAGES = ("en", "de", "fr", "es")


@dataclass(frozen=True, slots=True)
class BehaviourSentence:
    """One sentence with its kind and its text in every language of `LANGUAGES`."""

    id: str
    kind: str
    texts: dict[str, str]


def read_sentences(path: Path = FILE) -> tuple[BehaviourSentence, ...]:
    """Returns the sentences in the order of the file. Raises ValueError for a line without six columns."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        columns = line.split("\t")
        if len(columns) != 2 + len(LANGUAGES):
            raise ValueError(f"Line {number} of {path.name} has {len(columns)} columns; it needs six.")
        found.append(BehaviourSentence(columns[0], columns[1], dict(zip(LANGUAGES, columns[2:], strict=True))))
    return tuple(found)
