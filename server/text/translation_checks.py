"""Checks a translation against its source: repeated words, copied sentences, a missing end."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from itertools import pairwise

from model.search.repetition import repeated_blocks
from server.kept import kept
from server.text.exact_tokens import kept_spans
from server.text.languages import primary_subtag
from server.text.spans import WORD, blanked

_QUOTED = re.compile(r"\"[^\"]+\"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|‘[^’]+’|「[^」]+」")
_LETTERS = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|(?<![\w\-./\\$])[^\W\d_]+(?:['’\-][^\W\d_]+)*(?![\w(=])"
)
"""Words that are not names in code."""
_ENDS = ".!?…。！？"
_OPEN_ENDS = ",;:-–—(["
_UNPUNCTUATED = frozenset({"th", "lo", "km", "my"})
"""Languages that end sentences without a mark."""
LONGEST_PERIOD = 16
_WORD_COPIES, _PAIR_COPIES, _PHRASE_COPIES = 3, 3, 2
"""Least copies in a row of one word, two words, and longer phrases that are a repetition."""
COPIED_WORDS, COPIED_SHARE = 3, 0.8
"""Least ordinary words of a copied sentence, and the least share of them in the other text."""


def may_repeat(tokens: Sequence[Hashable]) -> bool:
    """Returns False if no sequence of tokens occurs twice in a row."""
    return len(set(pairwise(tokens))) < len(tokens) - 1


def repeats(source: str, target: str) -> bool:
    """Returns whether the target repeats words more often in a row than the source."""
    found = _repetition(WORD.findall(target.casefold()))
    return found > 0 and _repetition(WORD.findall(source.casefold())) < found


def _repetition(words: Sequence[str]) -> int:
    """Returns the largest number of copies in a row of a word or phrase, or 0 if these are too few."""
    most = 0
    for period, start, length in (
        repeated_blocks(words, LONGEST_PERIOD) if may_repeat(words) else ()
    ):
        least = _WORD_COPIES if period == 1 else _PAIR_COPIES if period == 2 else _PHRASE_COPIES
        # Groups of digits repeat in numbers: 1 000 000 000.
        if length // period >= max(least, most + 1) and any(
            map(str.isalpha, words[start : start + period])
        ):
            most = length // period
    return most


@kept(64)
def ordinary_words(text: str) -> Sequence[str]:
    """Returns the words of a text in small letters or in a script without capitals, without those in
    quotations and in parts that a translation keeps."""
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    found = _LETTERS.findall(blanked(text, [*quoted, *kept_spans(text)]))
    return [
        word for word in found if not word[0].isupper() and (len(word) > 1 or not word.isascii())
    ]


def is_copied(source: str, target: str) -> bool:
    """Returns whether most ordinary words of a source occur in its translation, and the reverse. The
    caller must check the language, as languages share words."""
    words = set(source.split())
    if 2 * len(words.intersection(target.split())) < len(words):  # fast
        return False
    read, written = ordinary_words(source), ordinary_words(target)
    return (
        len(read) >= COPIED_WORDS
        and min(_share(read, written), _share(written, read)) >= COPIED_SHARE
    )


def ends_early(source: str, target: str, language: str) -> bool:
    """Returns whether the translation of a sentence with a mark at its end has none there, or one
    after which a sentence goes on."""
    last, end = source.rstrip("\"'»”’)] \n")[-1:], target.rstrip()[-1:]
    if not last or last not in _ENDS or primary_subtag(language) in _UNPUNCTUATED:
        return False
    return end.isalnum() or end in _OPEN_ENDS


def _share(words: Sequence[str], others: Sequence[str]) -> float:
    known = set(others)
    return sum([word in known for word in words]) / len(words) if words else 0.0
