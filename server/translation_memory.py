"""Reads the pairs of translation memories in TMX, XLIFF 1.2 and 2, PO, TSV and CSV, without useless
and wrong pairs. Readers raise OSError, and InvalidRequest with the line."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from lxml import etree

from model.pairs import Pair, folded
from server.documents.formats.gettext import decoded, is_translated, parse
from server.documents.formats.plain import LINES, decode
from server.documents.formats.xml.parsing import SAFE, Element, check_document_type
from server.documents.formats.xml.xliff import marks_of
from server.errors import InvalidRequest
from server.text.language_id import LanguageDetector
from server.text.languages import (
    NAMES,
    has_letters,
    is_evidently_in,
    language_name,
    primary_subtag,
    resolve_language_code,
)
from server.text.syntax import plain

CODES = frozenset("bpt ept bx ex sc ec it sm em".split())
POINTS = frozenset("ph x ut cp".split())
"""Inline elements that are codes: beginnings and ends, and those that stand alone."""
POINT = re.compile(r"(?<=\w)\0+(?=\w)")


def elements(path: Path, root: str, *names: str) -> Iterator[Element]:
    """Yields the elements with these names in an XML file, and removes them after use. Raises
    InvalidRequest with the line, also for another `root`."""
    try:
        with path.open("rb") as file:
            parsed = etree.iterparse(file, tag=[f"{{*}}{name}" for name in (root, *names)], **SAFE)
            for _, element in parsed:
                check_document_type(element, allowed=True)
                if etree.QName(element).localname in names:
                    yield element
                    element.clear()
                    while element.getprevious() is not None:
                        del element.getparent()[0]
            if etree.QName(parsed.root).localname != root:
                raise InvalidRequest(f"The file is not {root.upper()}.")
    except etree.XMLSyntaxError as error:
        raise InvalidRequest(
            f"Line {error.lineno or 1} is not well-formed XML, or the file ends there."
        ) from error


def text_of(element: Element | None) -> str:
    """Returns the text of a segment without inline codes, but for placeholders of programs. Codes
    that separate words become a space."""
    return "" if element is None else POINT.sub(" ", _marked(element)).replace("\0", "")


def _marked(element: Element) -> str:
    """Returns the text of an element with a NUL for codes that stand alone."""
    parts = [element.text or ""]
    for child in element.iterchildren(etree.Element):
        name, text = etree.QName(child).localname, _marked(child)
        if name in CODES | POINTS:
            text = text or child.get("equiv-text") or child.get("disp") or child.get("equiv") or ""
            spans = () if text.startswith("<") else plain.codes(text)
            if [(span.start, span.end) for span in spans] != [(0, len(text))]:
                text = "\0" if name in POINTS else ""
        parts += [text, child.tail or ""]
    return "".join(parts)


Languages = tuple[str, str]
"""Codes of source and target."""
Reader = Callable[[Path, Languages, Counter[str]], Iterator[Pair]]
"""Yields the pairs of a file and counts the others by reason."""
UNTRANSLATED, UNAPPROVED = "not translated", "fuzzy or not approved"
DRAFT = re.compile(r"new|initial|needs-.*|rejected.*|.*mt.*|fuzzy.*")
"""States in XLIFF, and their qualifiers, of an unapproved translation."""
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
SAMPLE_ROWS = 20
"""Rows that show the separator of a CSV file."""


@lru_cache(maxsize=1024)
def is_in(tag: str, language: str) -> bool:
    """Returns whether a tag of a file, such as en-US, names a language, in any region."""
    return resolve_language_code(tag, (primary_subtag(language),)) is not None


def pair_of(
    texts: Sequence[tuple[str, str]], languages: Languages, dropped: Counter[str]
) -> Iterator[Pair]:
    """Yields the pair of these languages among texts with language tags, if there is one. The exact
    code has precedence."""
    pair = []
    for code in languages:
        fitting = [(tag.lower() != code.lower(), text) for tag, text in texts if is_in(tag, code)]
        pair += [min(fitting, key=lambda text: text[0])[1]] if fitting else []
    if len(pair) == len(languages):
        yield Pair(pair[0], pair[1])
    else:
        dropped["in other languages"] += 1


def read_tmx(path: Path, languages: Languages, dropped: Counter[str]) -> Iterator[Pair]:
    """Reads TMX, also with many languages."""
    for unit in elements(path, "tmx", "tu"):
        texts = [
            (variant.get(LANGUAGE) or variant.get("lang", ""), text_of(variant.find("{*}seg")))
            for variant in unit.iterfind("{*}tuv")
        ]
        yield from pair_of(texts, languages, dropped)


def read_xliff(path: Path, languages: Languages, dropped: Counter[str]) -> Iterator[Pair]:
    """Reads approved translations of the units and segments in XLIFF."""
    for unit in elements(path, "xliff", "trans-unit", "segment"):
        above = {
            name: value
            for element in unit.iterancestors()
            for name, value in element.attrib.items()
        }
        target = unit.find("{*}target")
        if target is None or not "".join(target.itertext()).strip():
            dropped[UNTRANSLATED] += 1
            continue
        states = (target.get("state"), target.get("state-qualifier"), unit.get("state"))
        if unit.get("approved") == "no" or any(DRAFT.fullmatch(state) for state in states if state):
            dropped[UNAPPROVED] += 1
            continue
        tags = (
            above.get("source-language") or above.get("srcLang") or languages[0],
            above.get("target-language") or above.get("trgLang") or languages[1],
        )
        sources = {mark.get("mid"): mark for mark in marks_of(unit.find("{*}seg-source"))}
        targets = {mark.get("mid"): mark for mark in marks_of(target)}
        if not sources or not targets:
            sources, targets = {None: unit.find("{*}source")}, {None: target}
        for name in sources.keys() & targets.keys():
            texts = [(tags[0], text_of(sources[name])), (tags[1], text_of(targets[name]))]
            yield from pair_of(texts, languages, dropped)


def read_po(path: Path, languages: Languages, dropped: Counter[str]) -> Iterator[Pair]:
    """Reads a gettext catalog without fuzzy entries, with the first and the last plural forms."""
    catalog = parse(decoded(path.read_bytes())[0])
    tag = catalog.metadata.get("Language") or languages[1]
    for entry in catalog:
        if entry.obsolete or not is_translated(entry):
            dropped[UNAPPROVED if entry.obsolete or entry.fuzzy else UNTRANSLATED] += 1
            continue
        forms = [form for _, form in sorted(entry.msgstr_plural.items())] or [entry.msgstr]
        for text, form in {
            entry.msgid: forms[0],
            entry.msgid_plural or entry.msgid: forms[-1],
        }.items():
            texts = [(languages[is_in(tag, languages[0])], text), (tag, form)]
            yield from pair_of(texts, languages, dropped)


def read_table(path: Path, languages: Languages, dropped: Counter[str]) -> Iterator[Pair]:
    """Reads TSV or CSV of two columns, or with a first row that names the languages of columns, or
    with the languages of each entry in a third and fourth column, as in glossaries of DeepL."""
    text, _ = decode(path.read_bytes())
    names = {"source": languages[0], "target": languages[1]} | {
        language_name(code).lower(): code for code in languages
    }
    is_csv = path.suffix.lower() == ".csv"
    reader = csv.reader(lines_of(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        if is_csv:
            reader = csv.reader(lines_of(text), delimiter=separator_of(text), strict=True)
        rows = ((reader.line_num, row) for row in reader if row)
        head = list(islice(rows, 2))
        first = head[0][1] if head else []
        tags = [names.get(cell.strip().lower(), cell.strip()) for cell in first]
        is_named = all(any(is_in(tag, code) for tag in tags) for code in languages)
        has_languages = all(
            len(row) == 4 and all(primary_subtag(tag) in NAMES for tag in row[2:])
            for _, row in head
        )
        tags = tags if is_named or has_languages else list(languages)
        for line, row in chain(head[is_named and not has_languages :], rows):
            if len(row) != len(tags):
                raise InvalidRequest(f"Line {line} has {len(row)} columns and not {len(tags)}.")
            tagged = (
                zip(row[2:], row[:2], strict=True) if has_languages else zip(tags, row, strict=True)
            )
            yield from pair_of(list(tagged), languages, dropped)
    except csv.Error as error:
        raise InvalidRequest(
            f"Line {reader.line_num} is not {'CSV' if is_csv else 'TSV'}: {error}."
        ) from None


def lines_of(text: str) -> Iterator[str]:
    """Yields the lines of a text with their ends, without a copy of a large text."""
    return (line[0] for line in LINES.finditer(text))


def separator_of(text: str) -> str:
    """Returns the separator that gives the first rows of a CSV file equally many columns."""
    for separator in ",;\t":
        rows = csv.reader(lines_of(text), delimiter=separator)
        if (
            len(widths := {len(row) for row in islice(rows, SAMPLE_ROWS) if row}) == 1
            and max(widths) > 1
        ):
            return separator
    return ","


READERS: dict[str, Reader] = {
    ".tmx": read_tmx,
    ".tsv": read_table,
    ".csv": read_table,
    ".po": read_po,
    ".xlf": read_xliff,
    "xliff": read_xliff,
}
"""Readers by the end of a file's name; SDLXLIFF and MXLIFF are XLIFF too."""
KINDS = ".tmx, .xliff, .po, .tsv or .csv"


def reader_of(path: Path) -> Reader | None:
    """Returns the reader of a file by its name, or None."""
    return next(
        (reader for suffix, reader in READERS.items() if path.name.lower().endswith(suffix)), None
    )


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
        elsewhere = [*map(self._is_elsewhere, texts, self._languages)]
        return "in another language" if any(elsewhere) else ""

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
