"""Reads plain text (.txt).

The lines of a hard-wrapped paragraph are joined, and its translation is wrapped at the same width.
A line continues the line before if its first word did not fit there.
"""

from __future__ import annotations

import codecs
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from server.documents.document import Document, Place, in_place, join_pieces
from server.errors import InvalidRequest
from server.text.segmentation import BREAKS
from server.text.spans import NO_SPACES

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins as UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LINES = re.compile(r"[^\n]*\n|[^\n]+")
HEAD_BYTES = 2048
ENCODINGS = re.compile(
    r"(?:utf|iso|cp\d|windows|latin|koi8|big5|gb|euc|shift|sjis|mac|us-ascii|ascii|tis)",
    re.IGNORECASE,
)
"""Encodings of web pages. Some other codecs of Python take quadratic time."""
UTF_16_SHARE = 0.5
LEGACY_SAMPLE = 20_000
WESTERN_SHARE = 0.25
"""Largest share of letters outside ASCII in a text in Latin-1 whose language is in no list: about
0.05 in French, above 0.9 in Cyrillic that is read as Latin-1."""
_CENTRAL = "ąćęłńóśźż áéěíóúůýčďňřšťž áäčďéíĺľňóôŕšťúýž áéíóöőúüű ăâîşţ čćđšž".split()
ALPHABETS = {
    "cp1252": "äöüß àâæçéèêëîïôœùûüÿ áéíñóúü áâãàçéêíóôõúü àèéìíîòóùú åäöæøé ëïéèöüáóíú áðéíóúýþæö "
    "àçèéíïòóúü äõöüšž".split(),
    "cp1250": _CENTRAL,
    "iso8859-2": _CENTRAL,
    "cp1254": ["çğıöşüâî"],
    "cp1257": ["ąčęėįšųūž", "āčēģīķļņšūž"],
}
"""Letters outside ASCII of languages, by the encoding of their older files."""
ALPHABET_SHARE = 0.85
"""Least share of a text's letters outside ASCII that belong to one language."""
CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
MIN_WIDTH = 40
MAX_WIDTH = 160
"""Shortest and longest width of wrapped text."""
SLACK = 0.1
"""Share of the width that a full line may lack."""
CONTINUED = 0.25
"""Least share of line breaks before a small letter, which are within a sentence."""
ITEM = re.compile(r"\s*(?:[-*+•‣◦▪●○·–—>|#=~_]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]\s|\[)")
"""The beginning of an item of a list, quotation, table, heading or rule."""
COLUMNS = re.compile(r"\S(?:\t|[ ]{3,})\S")
"""White space between the columns of a table."""
END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*$")
FIRST_WORD = re.compile(r"\s*(\S+)")


def read(data: bytes, target: str) -> Document:
    """Reads a text in UTF-8, or in UTF-16 with a byte order mark."""
    text, encode = decode(data)
    places: list[Place] = []
    position = 0
    for paragraph, group in groupby(paragraphs(LINES.findall(text)), itemgetter(1)):
        sources = [source for source, _ in group]
        for source in sources if paragraph else join_pieces(sources):
            start, position = position, position + len(source)
            if paragraph:
                places.append(Place(start, position, paragraph.text, paragraph.wrapped))
            elif BREAKS.sub("", source).strip():
                places.append(Place(start, position, source, str))
    return in_place(text, encode, places, "text")


def decode(
    data: bytes, encoding: str = "utf-8", markup: bool = False
) -> tuple[str, Callable[[str], bytes]]:
    """Returns the text of a file and a function that encodes a text in the same way. Characters
    that the encoding lacks become references in `markup`; other files become UTF-8. Raises
    InvalidRequest."""
    marks = ((mark, name) for mark, name in BYTE_ORDER_MARKS if data.startswith(mark))
    mark, marked = next(marks, (b"", unmarked_utf_16(data)))
    encoding = marked or (encoding if ENCODINGS.match(encoding) else "utf-8")
    try:
        text = data[len(mark) :].decode(encoding)
        text.encode(encoding)
    except (LookupError, UnicodeError):
        encoding = "" if mark else legacy_encoding(data)
        if not encoding:
            raise InvalidRequest(
                "The file is not text in UTF-8; save it in that encoding and send it again."
            ) from None
        text = data.decode(encoding)

    def encode(made: str) -> bytes:
        try:
            return mark + made.encode(encoding, "xmlcharrefreplace" if markup else "strict")
        except UnicodeEncodeError:
            return made.encode("utf-8", "replace")

    return text, encode


def unmarked_utf_16(data: bytes) -> str | None:
    """Returns the name of the encoding of UTF-16 without a byte order mark, or None: most of its
    high bytes are zero."""
    head = data[:HEAD_BYTES]
    high, low = head[::2].count(0), head[1::2].count(0)
    is_utf_16 = (
        len(data) % 2 == 0 == min(high, low) and max(high, low) >= UTF_16_SHARE * len(head) / 2
    )
    return ("utf-16-be" if high else "utf-16-le") if is_utf_16 else None


def legacy_encoding(data: bytes) -> str:
    """Returns the encoding with one byte a letter in which most letters outside ASCII belong
    to one language, or ""."""
    chosen, best = "", -1
    for encoding, alphabets in ALPHABETS.items():
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        letters = Counter(filter(str.isalpha, text[:LEGACY_SAMPLE].lower()))
        outside = sum(number for letter, number in letters.items() if not letter.isascii())
        size = max(sum(map(letters.__getitem__, alphabet)) for alphabet in alphabets)
        western = encoding == "cp1252" and outside <= WESTERN_SHARE * letters.total()
        if (
            size > best
            and (western or size >= ALPHABET_SHARE * outside)
            and not CONTROLS.search(text)
        ):
            chosen, best = encoding, size
    return chosen


class Paragraph(NamedTuple):
    """Hard-wrapped lines as written, and as one `text`."""

    lines: tuple[str, ...]
    text: str

    def wrapped(self, translation: str) -> str:
        """Returns a translation in lines of the same width, indentation and line ends."""
        width = max(len(line.rstrip()) for line in self.lines)
        dense = len(NO_SPACES.findall(translation)) * 2 > len(translation)
        rows = textwrap.wrap(
            translation.strip(),
            width // 2 if dense else width,
            initial_indent=_indent(self.lines[0]),
            subsequent_indent=_indent(self.lines[1]),
            break_long_words=dense,
            break_on_hyphens=False,
        )
        first, last = self.lines[0], self.lines[-1]
        return first[len(first.rstrip("\r\n")) :].join(rows) + last[len(last.rstrip("\r\n")) :]


def paragraphs(lines: Sequence[str]) -> Iterator[tuple[str, Paragraph | None]]:
    """Yields the wrapped lines of a text with their paragraph, and each other line with None."""
    for _, group in groupby(lines, str.isspace):
        block = list(group)
        width, start = max([len(line.rstrip()) for line in block]), 0
        is_wide = MIN_WIDTH <= width <= MAX_WIDTH
        for i in range(1, len(block) + 1):
            if (
                is_wide
                and i < len(block)
                and _continues(block[i - 1], block[i], width, first=i - 1 == start)
            ):
                continue
            part = block[start:i]
            if _is_prose(part):
                yield "".join(part), Paragraph(tuple(part), _joined(part))
            else:
                yield from ((line, None) for line in part)
            start = i


def _continues(line: str, next_line: str, width: int, first: bool) -> bool:
    """Returns whether a line continues in the next line. The `first` line of a paragraph may have
    another indentation."""
    word = FIRST_WORD.match(next_line)
    if word is None or ITEM.match(next_line) or COLUMNS.search(line) or COLUMNS.search(next_line):
        return False
    if line.lstrip()[:1] in ("#", "=", "|", ">", "~", "_") or (
        not first and _indent(line) != _indent(next_line)
    ):
        return False
    return len(line.rstrip()) + 1 + len(word[1]) > width * (1 - SLACK)


def _is_prose(lines: Sequence[str]) -> bool:
    """Returns whether enough line breaks are within a sentence."""
    within = [
        not END.search(line.rstrip()) and next_line.lstrip()[:1].islower()
        for line, next_line in pairwise(lines)
    ]
    return any(within) and sum(within) >= CONTINUED * len(within)


def _joined(lines: Sequence[str]) -> str:
    """Returns the lines as one line. No space follows a hyphen within a word."""
    text = lines[0].strip()
    for line in lines[1:]:
        hyphen = text.endswith("-") and text[-2:-1].isalpha() and line.lstrip()[:1].islower()
        text += ("" if hyphen else " ") + line.strip()
    return text


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
