"""Labels of programs: the mark of an access key is taken out before the translation, and is put in again."""

from __future__ import annotations

import re

MARK = re.compile(
    r"(?<![\w&_])(?:&&?|_)[^\W\d_](?!\w{1,7};)|(?<=[^\W\d_])&[a-z](?!\w{1,7};)|(?<=\b[A-Z])_[a-z]|(?<=\b[A-Z][a-z])_[a-z]"
)
"""The mark of an access key before a letter: `&Save`, `&&Save`, `_Save`, `E_xit`."""
AMPERSAND = re.compile(r"(?<![\w&_])&&?[^\W\d_](?!\w{1,7};)")
"""The mark at the beginning of a word in files that have other strings than labels too."""
LONGEST_LABEL = 60


def without_mark(text: str, mark: re.Pattern[str] = AMPERSAND) -> tuple[str, str]:
    """Returns a label without the mark of its access key, and the mark with the key: `&Save` -> `Save`, `&S`."""
    found = mark.findall(text) if len(text) <= LONGEST_LABEL else []
    return (text.replace(found[0], found[0][-1], 1), found[0]) if len(found) == 1 else (text, "")


def with_mark(text: str, mark: str) -> str:
    """Returns a label with an access key: the same letter where the label has it, first of a word, else its first letter."""
    letter = re.escape(mark[-1:])
    found = next(filter(None, (re.search(each, text, re.IGNORECASE) for each in (rf"\b{letter}", letter, r"\w", ""))))
    return text[: found.start()] + mark[:-1] + text[found.start() :]
