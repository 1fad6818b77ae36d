"""Draws the short texts on which the classifier of languages is trained, and those on which it is
measured.

    python -m benchmarks.quality.detection_texts SOURCES TEXTS          # then detection.py --train
    python -m benchmarks.quality.detection_texts SOURCES TEXTS --kept   # the half that is kept
    aside

SOURCES has folders with a file or folder for each language; server/text/tables/LICENSE-languages
    names what was in them: words/LANG.txt      a word and its count in each line (FrequencyWords)
    texts/LANG.txt      a sentence in each line (Tatoeba, Leipzig Corpora, Universal Declaration of
    Human Rights, Wikipedia) phrases/LANG.txt    a short text in each line, which is not cut
    (phrasebooks) messages/LANG/*.mo  catalogs of gettext (GNOME, LibreOffice, Debian); English are
    the originals of the German ones TEXTS gets a language and a text in each line, divided by a
    tab.
"""

from __future__ import annotations

import gettext
import hashlib
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.common.command_line import new_parser

NO_SPACES = frozenset(("zh", "ja", "th", "km", "lo", "my", "dz"))
TEXTS, MORE = 25_000, {"en": 3, "de": 3, "fr": 3, "es": 3}
"""Texts of a language, and how many times as many the languages of the embedded model have."""
FLATTENED = 0.6
"""Exponent of the counts of words: rare ones are drawn more often than they occur."""
NAMED = 0.12
"""Share of the texts of several words that get a name of another language: it must not decide."""
SIZES = (1, 1, 2, 2, 3, 3, 4, 6, 9)
MOST_WORDS = 8
"""Words of the longest message that is not cut."""
# letters that a menu is opened with, and its dots
_KEYS = re.compile(r"[_&](?=\w)|\(_?\w\)|…$|\.\.\.$")
_CODE = re.compile(r"[%<>{}\\$|@/=\d\n_&]|--|://")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("quality.detection_texts", __doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("texts", type=Path)
    kept = "texts of the sentences that are kept aside, without words"
    parser.add_argument("--kept", action="store_true", help=kept)
    options = parser.parse_args(arguments)
    files = [path for path in options.sources.glob("*/*") if path.is_dir() or path.suffix == ".txt"]
    languages = sorted({path.name.removesuffix(".txt") for path in files})
    if not languages:
        what = "words/, texts/, phrases/ or messages/ with a language"
        print(f"{options.sources} has no {what}.", file=sys.stderr)
        return 2
    names = [
        name
        for language in languages
        for name in _names(language, _lines(options.sources, "texts", language))
    ]
    with options.texts.open("w", encoding="utf-8") as out:
        for language in languages:
            for text in draw(options.sources, language, names, options.kept):
                out.write(f"{language}\t{text}\n")
    return 0


def draw(sources: Path, language: str, names: Sequence[str], kept: bool) -> Iterator[str]:
    """Yields the texts of a language: at most half are words by their counts, a third short texts,
    half pieces of sentences."""
    chance, count = random.Random(language), TEXTS * MORE.get(language, 1)
    lines = [] if kept else _lines(sources, "words", language)
    counts = [
        (word, int(number))
        for word, _, number in (line.rpartition(" ") for line in lines)
        if number.isdecimal()
    ]
    words = {word: number**FLATTENED for word, number in counts if number > 2}
    messages = [text for text in _messages(sources / "messages", language) if is_kept(text) == kept]
    short = [text for text in _lines(sources, "phrases", language) if is_kept(text) == kept]
    short += [text for text in messages if len(text.split()) <= MOST_WORDS]
    long = [text for text in _lines(sources, "texts", language) if is_kept(text) == kept]
    long += [text for text in messages if len(text.split()) > MOST_WORDS]
    drawn = chance.choices(list(words), list(words.values()), k=count) if words else []
    texts = []
    for start in range(0, len(drawn), 2):
        size = chance.choice((1, 1, 1, 2, 2, 3))
        texts.append(" ".join(drawn[start : start + size]))
    texts += chance.choices(short, k=min(count // 3, 6 * len(short))) if short else []
    texts += [
        _piece(language, chance.choice(long), chance)
        for _ in range(min(count // 2, 12 * len(long)))
    ]
    may_be_named = names and language not in NO_SPACES and not kept
    for text in texts:
        parts = text.split()
        if may_be_named and len(parts) > 1 and chance.random() < NAMED:
            parts.insert(chance.randrange(len(parts) + 1), chance.choice(names))
        if parts:
            yield " ".join(parts)


def is_kept(text: str) -> bool:
    """Returns whether a sentence and all its pieces are kept aside, by a hash of the sentence."""
    return bool(hashlib.sha256(" ".join(text.split()).lower().encode()).digest()[0] & 1)


def _piece(language: str, line: str, chance: random.Random) -> str:
    if language in NO_SPACES:
        line, size = "".join(line.split()), chance.choice((2, 4, 6, 8, 12))
        start = chance.randrange(max(1, len(line) - size))
        return line[start : start + size]
    words, size = line.split(), chance.choice(SIZES)
    start = chance.randrange(max(1, len(words) - size + 1))
    return " ".join(words[start : start + size])


def _names(language: str, lines: Iterable[str]) -> list[str]:
    """Returns capitalised words within some sentences; German has other words with capitals,
    too."""
    chosen = [] if language in NO_SPACES or language == "de" else list(lines)[:300]
    return [
        word
        for line in chosen
        for word in line.split()[1:]
        if word[:1].isupper() and word[1:].islower()
    ]


def _lines(sources: Path, kind: str, language: str) -> list[str]:
    file = sources / kind / f"{language}.txt"
    return (
        list(filter(None, file.read_text(encoding="utf-8").splitlines())) if file.is_file() else []
    )


def _messages(folder: Path, language: str) -> Iterator[str]:
    """Yields messages without code whose translation shares no word with the original, each
    once."""
    found: dict[str, None] = {}
    for file in sorted((folder / ("de" if language == "en" else language)).glob("*.mo")):
        with file.open("rb") as opened:
            catalog = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]
        for key, value in catalog.items():
            if not isinstance(key, str):
                continue  # a plural form
            pair = [_KEYS.sub("", str(each).rpartition("\x04")[2]).strip() for each in (key, value)]
            words = [set(re.findall(r"\w+", each.lower())) for each in pair]
            if all(words) and words[0].isdisjoint(words[1]) and not any(map(_CODE.search, pair)):
                found[pair[language != "en"]] = None
    yield from found


if __name__ == "__main__":
    sys.exit(main())
