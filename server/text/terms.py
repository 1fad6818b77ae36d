"""Compares the terms of a glossary with a translation: their inflections and their case."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from server.text.glossary import Entry, TermIndex, TermMatch, dictionary_forms, may_end, term_key
from server.text.spans import LETTERS, Span, blanked

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
    edits: list[Edit] = []
    for found in _occurrences(terms, translation):
        same = wanted[term_key(found.entry.target)]
        forms = [form(term, source, is_start(translation, found.start)) for term in same]
        written = translation[found.start : found.end]
        if unicodedata.normalize("NFC", written) not in [
            unicodedata.normalize("NFC", one) for one in forms
        ]:
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
    first = LETTERS.search(source)
    if at_start:
        return _capitalized(target) if first and first[0][0].isupper() else target
    return (
        _capitalized(target)
        if term.case == "initial" and not is_start(source, term.start)
        else target
    )


def is_start(text: str, position: int) -> bool:
    return not any(character.isalnum() for character in text[:position])


def inflected_place(text: str, term: str, language: str = "") -> Span | None:
    """Returns where a text contains a term in any inflection, or None."""
    wanted = [_bare(word) for word in _WORD.findall(term)]
    words = [(found.span(), _bare(found[0])) for found in _WORD.finditer(text)]
    for i in range(len(words) - len(wanted) + 1 if wanted else 0):
        part = words[i : i + len(wanted)]
        if all(
            _is_inflection(word, other, language)
            for (_, word), other in zip(part, wanted, strict=True)
        ):
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
