"""Strings of programs, which are translated without the marks of access keys in them."""

from __future__ import annotations

import re
from collections.abc import Callable

from server.documents.document import Place

MARK = re.compile(
    r"(?<![\w&_])(?:&&?|_)[^\W\d_](?!\w{1,7};)|(?<=[^\W\d_])&[a-z](?!\w{1,7};)|(?<=\b[A-Z])_[a-z]|(?<=\b[A-Z][a-z])_[a-z]"
)
"""The mark of an access key before a letter: `&Save`, `&&Save`, `_Save`, `E_xit`."""
AMPERSAND = re.compile(r"(?<![\w&_])&&?[^\W\d_](?!\w{1,7};)")
"""The mark at the beginning of a word in files that have other strings than labels too."""
LONGEST_LABEL = 60


def label(text: str, mark: re.Pattern[str] = AMPERSAND) -> tuple[str, Callable[[str], str]]:
    """Returns a text without the mark of its access key (`&Save` -> `Save`), and what writes its
    translation with it: before the same letter where it has it, first of a word, else before its
    first letter."""
    found = mark.findall(text) if len(text) <= LONGEST_LABEL else []
    if len(found) != 1:
        return text, str
    letter = re.escape(found[0][-1])
    own = text.replace(found[0], found[0][-1], 1)

    def written(new: str) -> str:
        places = (
            re.search(each, new, re.IGNORECASE) for each in (rf"\b{letter}", letter, r"\w", "")
        )
        place = next(filter(None, places)).start()
        return text if new == own else new[:place] + found[0][:-1] + new[place:]

    return own, written


def labelled(start: int, end: int, text: str, quoted: Callable[[str], str]) -> Place:
    """Returns the place of a label, which `quoted` writes."""
    own, written = label(text)
    return Place(start, end, own, lambda new: quoted(written(new)))
