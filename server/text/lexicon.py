"""The words of languages, and words of a translation that are none: left over from the source, or invented."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from server.kept import kept
from server.text.characters import LETTERS
from server.text.languages import primary_subtag, table
from server.text.translation_checks import ordinary_words

if TYPE_CHECKING:
    from simplemma.strategies import DefaultStrategy

_ENDINGS = {
    "en": "s ly less like",
    "de": "e em en er es n s t",
    "fr": "ais aise aux e es s ment",
    "es": "mente ito ita itos itas o a e os as es s la le lo las les los me te se nos",
}
"""Endings that a word may have beside those in its dictionary."""
LANGUAGES = frozenset(_ENDINGS)
"""Languages whose words are known: those for which false alarms are measured."""
_WORDS_PER_HIT = 20
"""A text is evidently in a language if it has more of its frequent words than one in this many words."""
_LINKS = ("", "s", "n", "en", "es", "er")
"""Letters between the parts of a German compound."""
_LEAST_PART, _MOST_PARTS = 3, 4
_LEAST_LEFT, _LEAST_INVENTED, _LONGEST = 3, 5, 40
"""Letters of a word that is checked. Longer words count as known."""
_lock = threading.Lock()
WordFlag = Literal["untranslated", "invented"]


@lru_cache(maxsize=1)
def _dictionaries() -> DefaultStrategy:
    from simplemma.strategies import DefaultStrategy  # takes 4 MB and a tenth of a second
    from simplemma.strategies.dictionaries.stream_dictionary_factory import StreamDictionaryFactory

    return DefaultStrategy(dictionary_factory=StreamDictionaryFactory(len(LANGUAGES)))


def _listed(word: str, language: str) -> bool:
    with _lock:  # the first word of a language loads its dictionary, up to half a second
        return _dictionaries().get_lemma(word, language) is not None


@lru_cache(maxsize=2)
def _words(name: str) -> dict[str, frozenset[str]]:
    words: dict[str, frozenset[str]] = {}
    for row in table(name):
        language, _, listed = row.partition(": ")
        words[language] = words.get(language, frozenset()).union(listed.split())
    return words


def is_evidently_in(text: str, language: str) -> bool:
    """Returns whether a text contains enough words that are frequent in this language and in few others. False is no
    evidence of another language."""
    frequent, words = _words("frequent_words").get(primary_subtag(language)), text.lower().split()
    return frequent is not None and sum(map(frequent.__contains__, words)) > len(words) // _WORDS_PER_HIT


@kept(65_536)
def is_word(word: str, language: str, parts: int = 1) -> bool:
    """Returns whether one of LANGUAGES has a word: it is in the dictionary or the table, or formed of such words. `parts`
    counts those of a compound up to this one."""
    small = word.lower().replace("œ", "oe")
    if len(word) > _LONGEST or word.lower() in _words("words").get(language, ()):
        return True
    if _listed(word, language) or _listed(small, language):
        return True
    if language == "de" and parts < _MOST_PARTS:
        for end in range(_LEAST_PART, len(small) - _LEAST_PART + 1):
            if not (_listed(small[:end], language) or _listed(small[:end].capitalize(), language)):
                continue
            rests = [small[end + len(link) :] for link in _LINKS if small.startswith(link, end)]
            if any(len(rest) >= _LEAST_PART and is_word(rest, language, parts + 1) for rest in rests):
                return True
    least = _LEAST_PART + (language != "es")  # the stem of darte: dar
    stems = [small.removesuffix(ending) for ending in _ENDINGS[language].split() if small.endswith(ending)]
    stems = [stem for stem in stems if len(stem) >= least and parts < _MOST_PARTS]
    return any(is_word(stem, language, _MOST_PARTS) for stem in stems)


def strange_words(source: str, target: str, source_language: str, target_language: str) -> set[WordFlag]:
    """Returns the flags of a target with words that its language, one of LANGUAGES, does not have: "untranslated" for an ordinary
    word of the source, "invented" for another one. Names, quotations and what resembles a name are none."""
    read, written = primary_subtag(source_language), primary_subtag(target_language)
    if not LANGUAGES.issuperset((read, written)):
        return set()
    given = LETTERS.findall(source)
    small = {word for word in given if word.islower()}
    words = dict.fromkeys(part for word in ordinary_words(target, written == "de") for part in LETTERS.findall(word))
    unknown = [word for word in words if word[1:].islower() and not is_word(word, written)]
    flags: set[WordFlag] = set()
    if any(len(word) >= _LEAST_LEFT and word.lower() in small and is_word(word.lower(), read) for word in unknown):
        flags.add("untranslated")
    all_given = {word.lower() for word in given}
    odd = [word.lower() for word in unknown if len(word) >= _LEAST_INVENTED and word.lower() not in all_given]
    if not odd:
        return flags
    names = {
        word.lower()
        for place, word in enumerate(given)
        if (place and word[0].isupper() and read != "de") or not is_word(word.lower(), read)
    }
    lower = target.lower()
    if any(name not in lower for name in names):
        return flags
    if any(not any(word[:3] == name[:3] or name[:4] in word for name in names) for word in odd):
        flags.add("invented")
    return flags
