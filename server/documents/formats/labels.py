"""Strings of programs, which are translated without the marks of access keys in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from server.documents.document import Document
from server.text.offsets import edited

MARK = re.compile(
    r"(?<![\w&_])(?:&&?|_)[^\W\d_](?!\w{1,7};)|(?<=[^\W\d_])&[a-z](?!\w{1,7};)|(?<=\b[A-Z])_[a-z]|(?<=\b[A-Z][a-z])_[a-z]"
)
"""The mark of an access key before a letter: `&Save`, `&&Save`, `_Save`, `E_xit`."""
AMPERSAND = re.compile(r"(?<![\w&_])&&?[^\W\d_](?!\w{1,7};)")
"""The mark at the beginning of a word in files that have other strings than labels too."""
LONGEST_LABEL = 60


class Label(NamedTuple):
    """A text as in its `source`, and without the mark of its access key; the mark with the key."""

    source: str
    text: str
    mark: str = ""

    def written(self, new: str) -> str:
        """Returns a translation with the access key: the same letter where it has it, first of a word, else its first letter."""
        if new == self.text or not self.mark:
            return self.source if new == self.text else new
        letter = re.escape(self.mark[-1])
        found = (re.search(each, new, re.IGNORECASE) for each in (rf"\b{letter}", letter, r"\w", ""))
        place = next(filter(None, found)).start()
        return new[:place] + self.mark[:-1] + new[place:]


def label(text: str, mark: re.Pattern[str] = AMPERSAND) -> Label:
    """Takes the mark of an access key out: `&Save` -> `Save`, `&S`."""
    found = mark.findall(text) if len(text) <= LONGEST_LABEL else []
    return Label(text, text.replace(found[0], found[0][-1], 1), found[0]) if len(found) == 1 else Label(text, text)


def document_of(
    text: str,
    encode: Callable[[str], bytes],
    strings: Sequence[Any],
    quoted: Callable[[Any, str], str],
    others: Sequence[tuple[int, int, str]],
) -> Document:
    """Returns a file whose `strings`, each with its `text` from `start` to `end`, are written as `quoted` says. `others` are
    edits that the target language needs."""
    labels = [label(each.text) for each in strings]

    def write(translations: Sequence[str]) -> bytes:
        made = [each.written(new) for each, new in zip(labels, translations, strict=True)]
        edits = [
            (each.start, each.end, quoted(each, new))
            for each, new in zip(strings, made, strict=True)
            if new != each.text
        ]
        return encode(edited(text, sorted([*edits, *others]))[0])

    return Document(tuple(each.text for each in labels), "text", write)
