"""The terms of a glossary: finds them in a text, and compares them with its translation.

Terms and texts are compared unit by unit: words, characters of a script without spaces, and
punctuation marks. Normalization forms, white space and kinds of apostrophes and hyphens do not
matter. The terms form a tree, so the time of a search does not grow with their number.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from os.path import commonprefix
from typing import Literal, NamedTuple

import regex

from server.errors import PayloadTooLarge
from server.text.languages import primary_subtag
from server.text.spans import LETTERS, UNSPACED, Span, blanked

STEPS, LEAST_STEPS = 10, 100_000
"""Most comparisons of a search per unit of the text, and the number that is always allowed."""
Case = Literal["written", "initial", "upper"]
"""The case of a term in a text: as in the glossary, with initial capitals, or in capitals."""

_UNIT = regex.compile(rf"\s*(?:[{UNSPACED}]|(?:[^\W{UNSPACED}]\p{{M}}*)+|\S)")
"""A mark belongs to the letter before it."""
_SAME = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u2010": "-", "\u2011": "-", "\u00ad": None}
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A term and its translation. Both may be inflected unless they are `exact`."""

    source: str
    target: str
    exact: bool = True


class TermMatch(NamedTuple):
    """A term at [start, end) of a text."""

    start: int
    end: int
    entry: Entry
    case: Case = "written"


@dataclass(slots=True)
class _Node:
    entries: list[Entry] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)


_State = tuple[_Node, bool]
"""A node of the tree, and whether a word on the path to it is inflected."""


class TermIndex:
    """The terms of one language pair. A term is found in the cases of `Case`, or with `any_case` in any
    case."""

    def __init__(self, entries: Iterable[Entry], any_case: bool = False) -> None:
        self.entries = tuple(entries)
        self.any_case = any_case
        self._inflected = not all(entry.exact for entry in self.entries)
        self._root = _Node()
        for entry in self.entries:
            node = self._root
            for _, _, key in _units(entry.source.strip()):
                node = node.children.setdefault(key, _Node())
            if node is not self._root:
                node.entries.append(entry)

    @cached_property
    def translations(self) -> TermIndex:
        """The index of the translations, each as its own translation."""
        return TermIndex(
            [Entry(entry.target, entry.target, entry.exact) for entry in self.entries],
            any_case=True,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all terms, for the keys of the result cache."""
        return hashlib.sha256(repr((self.entries, self.any_case)).encode()).hexdigest()

    def find(
        self, text: str, excluded: Sequence[Span] = (), cuts: Sequence[int] = (), language: str = ""
    ) -> list[TermMatch]:
        """Returns the terms of a text in order, the longest at each place, without overlaps. A term
        contains an `excluded` span as a whole or not at all, and none of the `cuts`. Both are
        sorted. Entries that are not exact are also found inflected in `language`. Raises
        PayloadTooLarge if so many terms begin alike that the search would not take linear time."""
        bounds = pairwise((0, *cuts, len(text)) if self._root.children else ())
        units = [unit for part in bounds for unit in (*_units(text, *part), (*part, ""))]
        lows, highs = [low for low, _ in excluded], [high for _, high in excluded]
        matches: list[TermMatch] = []
        first = steps = 0
        while first < len(units):
            start, after, best = units[first][0], first + 1, None
            states: list[_State] = [(self._root, False)]
            for number in range(first, len(units)):
                key = units[number][2] if number > first else units[first][2].lstrip()
                if not (states := self._following(states, key, language)):
                    break
                end = units[number][1]
                within = slice(bisect_right(highs, start), bisect_left(lows, end))
                if within.start < within.stop and (
                    lows[within.start] < start or highs[within.stop - 1] > end
                ):
                    continue
                for state in states:
                    if match := self._match(text, start, end, state):
                        best, after = match, number + 1
                        break
            steps += number - first
            if steps > LEAST_STEPS + STEPS * len(units):
                raise PayloadTooLarge(
                    "The terms of the glossary overlap too much in this text; send less text."
                )
            first = after
            matches += [best] if best else []
        return matches

    def _following(self, states: Sequence[_State], key: str, language: str) -> list[_State]:
        """Returns the nodes after one more unit, those without an inflection first."""
        reached = [
            (child, inflected) for node, inflected in states if (child := node.children.get(key))
        ]
        if self._inflected and language:
            space = key[: key.startswith(" ")]
            forms = [space + form for form in dictionary_forms(key.lstrip(), language)]
            reached += [
                (child, True)
                for node, _ in states
                for form in forms
                if (child := node.children.get(form))
            ]
        return reached

    def _match(self, text: str, start: int, end: int, state: _State) -> TermMatch | None:
        node, inflected = state
        entries = (
            [entry for entry in node.entries if not entry.exact] if inflected else node.entries
        )
        written = _plain(text[start:end])
        for case in ("written", "initial", "upper"):
            for entry in entries:
                if (_inflected_case if inflected else _case)(written, _plain(entry.source)) == case:
                    return TermMatch(start, end, entry, case)
        return TermMatch(start, end, entries[0]) if self.any_case and entries else None


def term_key(term: str) -> str:
    """Returns a key that is equal for spellings of a term that differ in case and normalization."""
    return _plain(term).casefold()


def _case(written: str, term: str) -> Case | None:
    if written == term:
        return "written"
    capitalized = " ".join([word[:1].upper() + word[1:] for word in term.split(" ")])
    if written in (term[:1].upper() + term[1:], capitalized):
        return "initial"
    return "upper" if written == term.upper() else None


def _inflected_case(written: str, term: str) -> Case | None:
    if term.isupper() or written.isupper():
        return None if term.isupper() else "upper"
    if written[:1].isupper() == term[:1].isupper():
        return "written"
    return "initial" if written[:1].isupper() else None


def _units(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int, str]]:
    """Returns start, end and key of each unit. The key begins with a space after white space."""
    units = []
    for found in _UNIT.finditer(text, start, end):
        unit = found[0].lstrip()
        space = " " if len(unit) < len(found[0]) else ""
        units.append((found.end() - len(unit), found.end(), space + term_key(unit)))
    return units


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text.translate(_SAME)).split())


_LEAST = 3
"""Least letters of a dictionary form."""
_ENDINGS = {
    "en": "s: | es: | ies:y | ves:f | ves:fe | men:man | children:child | people:person | "
    "mice:mouse | feet:foot | teeth:tooth",
    "de": "s: | es: | e: | n: | en: | er: | ern: | nen: | se: | sen: | en:um | en:a",
    "fr": "s: | x: | aux:al | aux:ail",
    "es": "s: | es: | ces:z | anes:án | eses:és | ines:ín | ones:ón | unes:ún",
    "it": "i:o | i:e | i:a | e:a | chi:co | ghi:go | che:ca | ghe:ga",
    "pt": "s: | es: | ões:ão | ães:ão | ais:al | eis:el | óis:ol | ns:m",
    "nl": "s: | n: | en: | ën:",
}
"""Endings of plurals and cases, each with that of the dictionary form, by language."""
_RULES = {
    language: [rule.strip().split(":") for rule in rules.split("|")]
    for language, rules in _ENDINGS.items()
}
_OF_ADJECTIVES = {"de": "m", "fr": "e"}
_LETTERS = {
    language: frozenset("".join([ending for ending, _ in rules]) + _OF_ADJECTIVES.get(language, ""))
    for language, rules in _RULES.items()
}
_UMLAUTS = (("äu", "au"), ("ä", "a"), ("ö", "o"), ("ü", "u"))


def dictionary_forms(word: str, language: str) -> list[str]:
    """Returns the other forms that a word in small letters may be an inflection of: battery for
    batteries, Haus for Häuser. Languages without rules have none."""
    code = primary_subtag(language)
    forms = [
        word.removesuffix(ending) + form
        for ending, form in _RULES.get(code, ())
        if word.endswith(ending)
    ]
    if code == "de":
        forms += [
            form[:at] + plain + form[at + len(umlaut) :]
            for form in (word, *forms)
            for umlaut, plain in _UMLAUTS
            if (at := form.rfind(umlaut)) >= 0
        ]
    return [form for form in dict.fromkeys(forms) if len(form) >= _LEAST and form != word]


def may_end(word: str, term: str, language: str) -> bool:
    """Returns whether the letters from which on a word differs from a term may be an ending in the
    language: "Apparats" is a form of "Apparat", "Apparatik" is not. In a language without rules any
    letters may."""
    letters = _LETTERS.get(primary_subtag(language))
    if letters is None:
        return True
    return letters.issuperset(word[len(commonprefix([word, term])) :])  # noqa: RUF071  # of letters


Edit = tuple[int, int, str]
"""The part [start, end) of a text, and its replacement."""
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_LONG = 6
"""Least letters of a word that may lose two in an inflection: cheval, chevaux."""
_ARTICLE = re.compile(
    r"(?<!\w)(?:(the|an?)|(d(?:er|ie|as|e[mns])|eine?[mnrs]?)|(l'|l[aeo]s?|el|un[aeo]?s?|des|du))(?:\s+|(?<='))",
    re.I,
)
_END = re.compile(r"[.!?…]+(?=[\s,;]|$)")
_ENDING = 3
"""Most letters that an inflection may add to a term."""


def lacking(terms: Sequence[TermMatch], translation: str, language: str = "") -> list[TermMatch]:
    """Returns the terms whose target is not in a translation in `language`, in order."""
    found = Counter(term_key(match.entry.target) for match in _occurrences(terms, translation))
    inflected = _inflected_targets(terms, translation, language)
    result = []
    for term in terms:
        key = term_key(term.entry.target)
        found[key] -= 1
        if found[key] < 0 if term.entry.exact else term.entry.target not in inflected:
            result.append(term)
    return result


def _inflected_targets(terms: Sequence[TermMatch], translation: str, language: str) -> set[str]:
    """Returns the targets of inflectable terms that a translation has in any inflection. Longer
    targets are searched first; no word counts twice."""
    targets = {term.entry.target for term in terms if not term.entry.exact}
    result = set()
    for target in sorted(targets, key=len, reverse=True):
        place = inflected_place(translation, target, language)
        if place is None and (
            same := TermIndex([Entry(target, target)], any_case=True).find(translation)
        ):
            place = same[0].start, same[0].end
        if place:
            result.add(target)
            translation = f"{translation[: place[0]]}\0{translation[place[1] :]}"
    return result


def is_damaged(terms: Sequence[TermMatch], before: str, after: str) -> bool:
    """Returns whether a translation with forced terms has more sentences than the one `before`, or
    many other words fewer."""
    texts = [
        blanked(text, [(term.start, term.end) for term in _occurrences(terms, text)])
        for text in (before, after)
    ]
    ends, words = [[len(each.findall(text)) for text in texts] for each in (_END, _WORD)]
    lost = sum([len(_WORD.findall(term.entry.source)) for term in terms])
    return ends[1] > ends[0] or words[1] < 0.7 * (words[0] - lost)


def case_edits(terms: Sequence[TermMatch], source: str, translation: str) -> list[Edit]:
    """Returns the edits that give the terms of a translation the case of the source."""
    wanted: dict[str, list[TermMatch]] = {}
    for term in terms:
        wanted.setdefault(term_key(term.entry.target), []).append(term)
    edits, normalized = list[Edit](), partial(unicodedata.normalize, "NFC")
    for found in _occurrences(terms, translation):
        same = wanted[term_key(found.entry.target)]
        forms = [form(term, source, is_start(translation, found.start)) for term in same]
        written = translation[found.start : found.end]
        if normalized(written) not in map(normalized, forms):
            edits.append((found.start, found.end, forms[0]))
        elif len(same) > 1:
            same.pop(0)
    return edits


def without_article(before: str, term: str) -> str:
    """Returns the text before a term, without an article at its end if the term begins with one."""
    article = _ARTICLE.match(term)
    for found in _ARTICLE.finditer(before, max(0, len(before) - 10)) if article else ():
        if article and found.lastindex == article.lastindex and found.end() == len(before):
            return before[: found.start()]
    return before


def form(term: TermMatch, source: str, at_start: bool) -> str:
    """Returns the translation of a term of `source` in the case of the term. At the start of the
    translation (`at_start`) it has a capital if the source begins with one."""
    target = term.entry.target.strip()
    if term.case == "upper":
        return target.upper()
    if at_start:
        first = LETTERS.search(source)
        has_capital = first is not None and first[0][0].isupper()
    else:
        has_capital = term.case == "initial" and not is_start(source, term.start)
    return _capitalized(target) if has_capital else target


def is_start(text: str, position: int) -> bool:
    return not any(character.isalnum() for character in text[:position])


def inflected_place(text: str, term: str, language: str = "") -> Span | None:
    """Returns where a text contains a term in any inflection, or None."""
    wanted = [_bare(word) for word in _WORD.findall(term)]
    words = [(found.span(), _bare(found[0])) for found in _WORD.finditer(text)]
    for i in range(len(words) - len(wanted) + 1 if wanted else 0):
        part = words[i : i + len(wanted)]
        pairs = zip(part, wanted, strict=True)
        if all(_is_inflection(word, other, language) for (_, word), other in pairs):
            return part[0][0][0], part[-1][0][1]
    return None


def _is_inflection(word: str, term: str, language: str) -> bool:
    if term in dictionary_forms(word, language):
        return True
    lost = 2 if len(term) >= _LONG else int(len(term) > 3 and term[-1] in "aeiou")
    longest = len(term) + _ENDING
    return (
        word.startswith(term[: len(term) - lost])
        and len(word) <= longest
        and may_end(word, term, language)
    )


def _bare(word: str) -> str:
    split = unicodedata.normalize("NFD", word.casefold())
    return "".join([character for character in split if not unicodedata.combining(character)])


def _capitalized(text: str) -> str:
    """Returns the text with an initial capital, but names such as iPhone unchanged."""
    return text[:1].upper() + text[1:] if text.split(maxsplit=1)[0].islower() else text


def _occurrences(terms: Sequence[TermMatch], translation: str) -> list[TermMatch]:
    targets = dict.fromkeys([term.entry.target.strip() for term in terms])
    return TermIndex([Entry(target, target) for target in targets], any_case=True).find(translation)
