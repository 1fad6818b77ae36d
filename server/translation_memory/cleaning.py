"""Reads translation memories without useless and wrong pairs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from model.pairs import Pair, folded
from server.errors import InvalidRequest
from server.text.language_id import LanguageDetector
from server.text.languages import has_letters, is_evidently_in, language_name, primary_subtag
from server.text.syntax import plain
from server.translation_memory.formats import KINDS, reader_of

MOST_TIMES, SPARE_BYTES = 3, 40
"""A text has at most MOST_TIMES the bytes of the other one and SPARE_BYTES more."""
LEAST_WORDS, LEAST_LETTERS, SAMPLE = 5, 24, 200
"""Least words and characters of a text whose language is judged, by its first SAMPLE characters."""
LEAST_WRONG = 10
"""A file is refused if LEAST_WRONG texts or more, and half of the judged ones, are in another
language."""
NEIGHBOURS = "en de fr es it pt nl pl sv".split()
"""Languages that a text may be in instead."""
INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
WORD, TAG = re.compile(r"\w+"), re.compile(r"</?\w+")
BROKEN = re.compile("[\x00-\x1f\x7f-\x9f\ufffd-\uffff]")


class Cleaner:
    """Cleans pairs one by one and counts the `dropped` ones by reason."""

    def __init__(self, source: str, target: str, longest: int, dropped: Counter[str]) -> None:
        self._languages = (source, target)
        self._longest = longest
        self._dropped = dropped
        self._seen: set[int] = set()
        self._detector = LanguageDetector({*map(primary_subtag, self._languages), *NEIGHBOURS})
        self._judged: Counter[str] = Counter()
        self._wrong: Counter[str] = Counter()

    def clean(self, pair: Pair) -> Pair | None:
        """Returns a pair with single spaces and without invisible characters; None drops it."""
        source, target = (
            " ".join(INVISIBLE.sub("", text).split()) for text in (pair.source, pair.target)
        )
        if reason := self._fault(source, target):
            self._dropped[reason] += 1
            return None
        return Pair(source, target)

    def check_languages(self) -> None:
        """Raises InvalidRequest if most texts since the last call are in another language."""
        wrong = [
            code
            for code in self._languages
            if self._wrong[code] >= max(LEAST_WRONG, self._judged[code] / 2)
        ]
        self._judged.clear()
        self._wrong.clear()
        if wrong:
            raise InvalidRequest(
                f"Most of the texts that should be {language_name(wrong[0])} are in another "
                "language."
            )

    def _fault(self, source: str, target: str) -> str:
        """Returns why a pair is dropped, or ""."""
        texts = (source, target)
        sizes = sorted(len(text.encode()) for text in texts)
        if not all(texts):
            return "empty"
        if source.casefold() == target.casefold():
            return "equal"
        if any(map(BROKEN.search, texts)):
            return "with control or broken characters"
        if not all(map(has_letters, texts, self._languages)):
            return "without words of the language"
        if sizes[1] > MOST_TIMES * sizes[0] + SPARE_BYTES:
            return "of very different lengths"
        if max(map(len, texts)) > self._longest:
            return "too long"
        if placeholders(source) != placeholders(target):
            return "with other placeholders"
        if (key := hash((folded(source), folded(target)))) in self._seen:
            return "repeated"
        self._seen.add(key)
        return (
            "in another language" if any([*map(self._is_elsewhere, texts, self._languages)]) else ""
        )

    def _is_elsewhere(self, text: str, language: str) -> bool:
        """Returns whether a text is certainly not in its language. Short texts never are."""
        for span in reversed(plain.codes(text)):
            text = f"{text[: span.start]} {text[span.end :]}"
        if len(text.split()) < LEAST_WORDS or len(text) < LEAST_LETTERS:
            return False
        self._judged[language] += 1
        elsewhere = not is_evidently_in(text, language) and bool(
            self._detector.other_language(text[:SAMPLE], primary_subtag(language))
        )
        self._wrong[language] += elsewhere
        return elsewhere


def placeholders(text: str) -> Counter[str]:
    """Returns how often each tag, message and word of a variable is in a text."""
    counts: Counter[str] = Counter()
    for span in plain.codes(text):
        part = text[span.start : span.end]
        if span.message is not None:
            counts["message"] += 1
        elif part[0] in "%{$":
            counts.update(WORD.findall(part))
        elif tag := TAG.match(part):  # its attributes may be translated
            counts[tag[0]] += 1
    return counts


TABLES = (".tsv", ".csv")
TERM_WORDS = 5


def read_memory(
    paths: Iterable[Path], source: str, target: str, longest: int = 1_000
) -> tuple[list[Pair], dict[str, int]]:
    """Returns the useful pairs of files, and the number of dropped pairs by reason. `longest` is
    the most characters of a text. Tables of short entries are glossaries, with terms as pairs, if
    there are other files. Raises OSError, and InvalidRequest for a file that cannot be read or is
    in other languages."""
    dropped: Counter[str] = Counter()
    cleaner = Cleaner(source, target, longest, dropped)
    pairs: list[Pair] = []
    # glossaries first, because repeated pairs are dropped
    for path in sorted(paths, key=lambda path: path.suffix.lower() not in TABLES):
        reader = reader_of(path)
        try:
            if reader is None:
                raise InvalidRequest(f"Files of this kind are not read here; give one of {KINDS}.")
            read = [
                pair for pair in map(cleaner.clean, reader(path, (source, target), dropped)) if pair
            ]
            cleaner.check_languages()
        except InvalidRequest as error:
            raise InvalidRequest(f"{path}: {error}") from error
        term = path.suffix.lower() in TABLES and is_glossary(read)
        pairs += [replace(pair, term=True) for pair in read] if term else read
    if all(pair.term for pair in pairs):
        pairs = [replace(pair, term=False) for pair in pairs]
    return pairs, dropped


def is_glossary(pairs: Sequence[Pair]) -> bool:
    """Returns whether the texts of a table are terms: few words and no sentences."""
    texts = (text for pair in pairs for text in (pair.source, pair.target))
    return all(len(text.split()) <= TERM_WORDS and text[-1] not in ".!?" for text in texts)
