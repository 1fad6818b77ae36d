"""Reads translation memories without the pairs that teach a model nothing, or something wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from model.pairs import Pair
from server.errors import InvalidRequest
from server.translation_memory.cleaning import Cleaner
from server.translation_memory.formats import KINDS, reader_of

TABLES = (".tsv", ".csv")
TERM_WORDS = 5


def read_memory(
    paths: Iterable[Path], source: str, target: str, longest: int = 1_000
) -> tuple[list[Pair], dict[str, int]]:
    """Returns the useful pairs of files, and the number of the others by reason. `longest` is the most characters of a
    text. Raises OSError, and InvalidRequest for a file that cannot be read or is in other languages.

    Tables of short entries are glossaries if there are other files: their pairs are terms.
    """
    dropped: Counter[str] = Counter()
    cleaner = Cleaner(source, target, longest, dropped)
    pairs: list[Pair] = []
    # Glossaries first, because a pair is dropped that has been read before.
    for path in sorted(paths, key=lambda path: path.suffix.lower() not in TABLES):
        reader = reader_of(path)
        try:
            if reader is None:
                raise InvalidRequest(f"Files of this kind are not read here; give one of {KINDS}.")
            read = [pair for pair in map(cleaner.clean, reader(path, (source, target), dropped)) if pair]
            cleaner.check_languages()
        except InvalidRequest as error:
            raise InvalidRequest(f"{path}: {error}") from error
        term = path.suffix.lower() in TABLES and is_glossary(read)
        pairs += [replace(pair, term=True) for pair in read] if term else read
    return [replace(pair, term=False) for pair in pairs] if all(pair.term for pair in pairs) else pairs, dropped


def is_glossary(pairs: Sequence[Pair]) -> bool:
    """Returns whether the texts of a table are terms: a few words each, and no sentence."""
    texts = (text for pair in pairs for text in (pair.source, pair.target))
    return all(len(text.split()) <= TERM_WORDS and text[-1] not in ".!?" for text in texts)
