"""Compares the text of a translation with its source: repeated words, copied sentences, a target
that ends too early."""

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
"""Words, and not names in code."""
_ENDS = ".!?…。！？"
_OPEN_ENDS = ",;:-–—(["
_UNPUNCTUATED = frozenset({"th", "lo", "km", "my"})
"""Languages that end sentences without a mark."""
LONGEST_PERIOD = 16
_WORD_COPIES, _PAIR_COPIES, _PHRASE_COPIES = 3, 3, 2
"""Copies in a row from which on a word, two words, or three and more words count as a
repetition."""
COPIED_WORDS, COPIED_SHARE = 3, 0.8
"""A copied sentence has at least this many ordinary words, and this share of them is in the other
text."""


def may_repeat(tokens: Sequence[Hashable]) -> bool:
    """Returns False where no sequence of these tokens or words occurs twice in a row."""
    return len(set(pairwise(tokens))) < len(tokens) - 1


def repeats(source: str, target: str) -> bool:
    """Returns whether the target says the same words several times in a row, and the source does
    not."""
    found = _repetition(WORD.findall(target.casefold()))
    return found > 0 and _repetition(WORD.findall(source.casefold())) < found


def _repetition(words: Sequence[str]) -> int:
    """Returns the largest number of copies of a word or phrase in a row; 0 if they are too few for
    a repetition."""
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
    """Returns the words of a text that are written in small letters, or in a script without
    capitals. Quotations and the parts that every translation repeats are left out."""
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    found = _LETTERS.findall(blanked(text, [*quoted, *kept_spans(text)]))
    return [
        word for word in found if not word[0].isupper() and (len(word) > 1 or not word.isascii())
    ]


def is_copied(source: str, target: str) -> bool:
    """Returns whether most ordinary words of a source occur in its translation, and the reverse.
    Sentences with few such words are not copied. Languages that share words need a further test."""
    words = set(source.split())
    if 2 * len(words.intersection(target.split())) < len(words):  # much faster
        return False
    read, written = ordinary_words(source), ordinary_words(target)
    return (
        len(read) >= COPIED_WORDS
        and min(_share(read, written), _share(written, read)) >= COPIED_SHARE
    )


def ends_early(source: str, target: str, language: str) -> bool:
    """Returns whether a sentence with a full stop or another mark at its end has a translation
    without any, or with one after which a sentence goes on."""
    last, end = source.rstrip("\"'»”’)] \n")[-1:], target.rstrip()[-1:]
    if not last or last not in _ENDS or primary_subtag(language) in _UNPUNCTUATED:
        return False
    return end.isalnum() or end in _OPEN_ENDS


def _share(words: Sequence[str], others: Sequence[str]) -> float:
    known = set(others)
    return sum([word in known for word in words]) / len(words) if words else 0.0
