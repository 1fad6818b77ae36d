"""The terms of a glossary in a translation: the forms in which it may contain them, and their case."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from server.text.offsets import edited
from server.text.protection.find import ProtectedSpan
from server.text.protection.glossary import Entry, TermIndex, TermMatch, term_key

Edit = tuple[int, int, str]
"""The part [start, end) of a text, and what is written instead."""
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_LETTER = re.compile(r"[^\W\d_]")
_LONG = 6
"""Words of at least this length may lose two letters in an inflection, as in cheval, chevaux."""
_ENDING = 3
"""Longest ending that an inflected word may add to a term."""


def with_translated_terms(text: str, terms: Sequence[TermMatch], spans: Sequence[ProtectedSpan]) -> str:
    """Returns a text that is copied, with its terms translated."""
    edits = [(term.start, term.end, form(term, text, is_start(text, term.start))) for term in terms]
    edits += [(span.start, span.end, span.written) for span in spans if span.written]
    return edited(text, sorted(edits))[0] if edits else text


def lacking(terms: Sequence[TermMatch], translation: str) -> list[TermMatch]:
    """Returns the terms whose translation a translation lacks, in order."""
    found = Counter(term_key(match.entry.target) for match in _occurrences(terms, translation))
    result = []
    for term in terms:
        key = term_key(term.entry.target)
        found[key] -= 1
        if found[key] < 0 and (term.entry.exact or not has_inflected(translation, term.entry.target)):
            result.append(term)
    return result


def case_edits(terms: Sequence[TermMatch], source: str, translation: str) -> list[Edit]:
    """Returns the edits after which the terms of a translation are in the case that the source asks for."""
    wanted: dict[str, list[TermMatch]] = {}
    for term in terms:
        wanted.setdefault(term_key(term.entry.target), []).append(term)
    edits: list[Edit] = []
    for found in _occurrences(terms, translation):
        same = wanted[term_key(found.entry.target)]
        forms = [form(term, source, is_start(translation, found.start)) for term in same]
        written = translation[found.start : found.end]
        if unicodedata.normalize("NFC", written) not in [unicodedata.normalize("NFC", one) for one in forms]:
            edits.append((found.start, found.end, forms[0]))
        elif len(same) > 1:
            same.pop(0)
    return edits


def form(term: TermMatch, source: str, at_start: bool) -> str:
    """Returns the translation of a term of `source` in its case: capitals as in the source, and a capital letter at the
    start of the translation (`at_start`) if the source begins with one."""
    target = term.entry.target.strip()
    if term.case == "upper":
        return target.upper()
    first = _LETTER.search(source)
    if at_start:
        return _capitalized(target) if first and first[0].isupper() else target
    return _capitalized(target) if term.case == "initial" and not is_start(source, term.start) else target


def is_start(text: str, position: int) -> bool:
    """Returns whether there is no letter or digit before a position."""
    return not any(character.isalnum() for character in text[:position])


def has_inflected(text: str, term: str) -> bool:
    """Returns whether a text contains a term in any inflection: each word may have another ending."""
    wanted = [_bare(word) for word in _WORD.findall(term)]
    words = [_bare(word) for word in _WORD.findall(text)]
    return bool(wanted) and any(
        all(map(_is_inflection, words[i : i + len(wanted)], wanted)) for i in range(len(words) - len(wanted) + 1)
    )


def _is_inflection(word: str, term: str) -> bool:
    lost = 2 if len(term) >= _LONG else int(len(term) > 3 and term[-1] in "aeiou")
    return word.startswith(term[: len(term) - lost]) and len(word) <= len(term) + _ENDING


def _bare(word: str) -> str:
    """Returns a word in lower case without accents."""
    split = unicodedata.normalize("NFD", word.casefold())
    return "".join([character for character in split if not unicodedata.combining(character)])


def _capitalized(text: str) -> str:
    """Returns the text with a capital letter at its beginning, but names such as iPhone as they are."""
    return text[:1].upper() + text[1:] if text.split(maxsplit=1)[0].islower() else text


def _occurrences(terms: Sequence[TermMatch], translation: str) -> list[TermMatch]:
    targets = dict.fromkeys([term.entry.target.strip() for term in terms])
    return TermIndex([Entry(target, target) for target in targets], any_case=True).find(translation)
