"""Finds the numbers of a text and detects whether its translation has the same ones.

Numbers are compared by value: a translation may write 1,234.5 as 1.234,5 and a small number as a word ("drei").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set
from itertools import pairwise

from server.text.segmentation import Span

# Digits with separators between them (also dates and times), optionally with a currency or percent sign. Digits within
# "A4", "21st" or "COVID-19" do not match.
NUMBER = re.compile(
    r"(?<![\w.,:/\-])[$€£¥+−-]?"
    r"(?:\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?:[.,]\d+)?|\d(?:[\d.,:/'’–-]*\d)?)"
    r"(?:\s?(?:[‰°€]|%(?![<({@$%*#]|[.+\-]?\d)))?(?!\w|[.,:/'’-]\w)"
)
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d(?:[.,'’]?\d)*")
_SEPARATORS = re.compile(r"[.,'’]")
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?!\d)")
_ROMAN = re.compile(r"(?<!\w)[IVXLCDM]+(?![A-Z\d_])")
ORDINAL_ENDINGS = r"st|nd|rd|th|\.?er|re|i?[eè]me|e|\.?[ºª]"
_ORDINAL = re.compile(rf"(?<![\w.,:/-])(\d{{2,4}})(?:{ORDINAL_ENDINGS}|(?<=0)['’]?s)(?!\w)")
_DECADE = re.compile(r"(?<!\d)\d\d(\d0)['’]?s(?!\w)")
_NUMERAL = re.compile(r"(?=[IVX]{2}$|...)M{0,3}(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})")
_TIME = re.compile(r"(?<=\d)(?:\.(?=\d\d Uhr)| ?h ?(?=\d\d\b))")
_OTHERWISE = re.compile(r"(?<=\d):00\b|(?<=\d\d):(?=\d\d (?:UTC|GMT))|(?<=m)[23²³](?!\w)|(?<=°) ?[NSEWO]\b|(?<=\d)s\b")
"""What translations leave out or write otherwise: full hours, powers of units, points of the compass, plurals."""
UNIT = (
    r"km/h|m/s|mph|[kcmnµμ]?m|[kmµ]g|[cmh]l|[kKMGT]i?B|[kMG]bit/s|[kMG]W|[kMG]?Wh|[kMG]?Hz|°[CF]|px|r?em|dB|[mn]s|mAh|kcal|kJ"
    r"|hPa|dpi|fps"
)
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_CLOCK = re.compile(r"\d ?(?:[ap]\.? ?m\b|h\b|:\d\d|uhr|heures?\b|o'clock)|tarde|abends", re.IGNORECASE)
_SCALED = re.compile(
    r"(\d+(?:[.,]\d+)*|\d{1,3}(?:[ \u00a0\u202f]\d{3})+) ?(?:(thousand|tausend|mil(?:le)?\b)|(milliard|billion)|(mill|mio\b))",
    re.IGNORECASE,
)
"""Numbers before a word for thousands, for billions (not those of German) or for millions."""
_IN_WORDS = re.compile(r"(half|halb|demi|media)|(?<!\d )(thousand|tausend|mil(?:le)?\b)", re.IGNORECASE)
_OFTEN_A_WORD = 12
"""Numbers up to this one are often written as words."""
_LETTERS_OF_A_UNIT = 2
"""Most letters of a unit or a variable, such as m² and x₁."""


def find_numbers(text: str) -> list[Span]:
    """Returns the spans of the numbers in a text that are not part of a word."""
    return [found.span() for found in NUMBER.finditer(text)] if _DIGIT.search(text) else []


def number_values(text: str) -> Counter[str]:
    """Returns how often each number occurs in a text, as plain decimals, including digits within words."""
    joined = _GROUPS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    return Counter(_plain(found[0]) for found in _DIGITS.finditer(joined))


def number_difference(
    source: str, target: str, lacks: Set[str] = frozenset(), adds: Set[str] = frozenset()
) -> tuple[Set[str], Set[str]]:
    """Returns the numbers of a source that the target has not as often, but for those that it `lacks` in digits; and those that
    it has too often, but for those that it `adds`. A small number may be missing, since it can be written as a word, unless
    the target has one that the source does not have. Numbers in the translation of a source without digits are numbers
    that it writes as words."""
    if not _DIGIT.search(source):
        return frozenset(), frozenset()
    given, found = number_values(source), number_values(target)
    if given == found:
        return frozenset(), frozenset()
    written = [source[start:end] for start, end in find_numbers(source)]
    known = Counter([*map(roman_value, _ROMAN.findall(source)), *_DECADE.findall(source), *adds])
    added = (found - given - known).keys()
    missing = ((number_values("; ".join(written)) & given) - found - Counter(lacks)).keys()
    # The 3 of 978-3-16 is not written as a word.
    alone = {value for number in written if len(values := number_values(number)) == 1 for value in values}
    return missing if added else {value for value in missing if value not in alone or not _is_small(value)}, added


def _is_small(value: str) -> bool:
    return value.isdigit() and len(value) < 3 and int(value) <= _OFTEN_A_WORD


def written_otherwise(source: str, target: str) -> tuple[Set[str], Set[str]]:
    """Returns the numbers of a source that its translation has in another way, and the reverse: by the other clock, as a decade
    without its century, with a word for a half, with a word such as million in place of zeros."""
    sides = [_values(source), _values(target)]
    in_words = [found.lastindex for found in (*_IN_WORDS.finditer(source), *_IN_WORDS.finditer(target))]
    clock = _CLOCK.search(source) or _CLOCK.search(target)
    both = []
    for values, others in (sides, sides[::-1]):
        known = set(others.values()) - {0.0}  # the 0 of 11:00 is no hour
        both.append(
            {
                plain
                for plain, value in values.items()
                if plain not in others
                and (
                    value in known
                    or (value % 1 == 0.5 and 1 in in_words)
                    or (value >= 1000 and value % 1000 == 0 and 2 in in_words)
                    or (clock and 0 < value < 24 and not known.isdisjoint((value - 12, value + 12)))
                    or (value % 10 == 0 and not known.isdisjoint((value - 1900, value + 1900)))
                )
            }
        )
    return both[0], both[1]


def _values(text: str) -> dict[str, float]:
    """Returns the numbers of a text as plain decimals, with their values together with words such as million."""
    found = {plain: float(plain) for plain in number_values(text) if plain.count(".") < 2}
    for match in _SCALED.finditer(text):
        for plain in number_values(match[1]):
            power = 3 if match[2] else 9 if match[3] else 6
            found[plain] = found.get(plain, 0.0) * 10**power
    return found


def lost_ordinal(source: str, target: str, lacks: Set[str] = frozenset()) -> bool:
    """Returns whether the number of an ordinal or decade of the source, 18th or 1990s, is nowhere in the target: 18., 18e, 18º,
    XVIII. A small one may be written as a word, and one that the target `lacks` in another way."""
    found = _ORDINAL.findall(source) if _DIGIT.search(source) else ()
    ordinals = {value for value in found if int(value) > _OFTEN_A_WORD}
    return bool(ordinals) and not ordinals <= {
        *lacks,
        *number_values(target),
        *map(roman_value, _ROMAN.findall(target)),
    }


def roman_value(numeral: str) -> str:
    """Returns the value of a Roman numeral: siglo XIX is the 19th century."""
    values = [_VALUES[letter] for letter in numeral]
    return str(sum(value if value >= after else -value for value, after in pairwise([*values, 0])))


def _plain(number: str) -> str:
    """Returns a plain decimal: separators before groups of three digits are dropped, another one at the end becomes a
    point. So 1,234.5 and 1.234,5 are equal, but not 1.234.5, and 0 and 00 are not."""
    groups, separators = _SEPARATORS.split(number), _SEPARATORS.findall(number)
    if all(len(group) == 3 for group in groups[1:]):
        plain = "".join(groups)
    elif all(len(group) == 3 for group in groups[1:-1]) and separators[-1] not in separators[:-1]:
        plain = "".join(groups[:-1]) + "." + groups[-1]
    else:
        plain = ".".join(groups)
    return plain.lstrip("0") if plain.strip("0.") else plain


def is_roman(word: str) -> bool:
    """Returns whether a word is a Roman numeral of two letters or more; of two, only of I, V and X."""
    return len(word) > 1 and _NUMERAL.fullmatch(word) is not None


def with_colons(text: str) -> str:
    """Returns a text in which times have a colon: 14.30 Uhr, 9 h 05."""
    return _TIME.sub(":", text)


def without_units(text: str) -> str:
    """Returns a text without what a translation may leave out after a number: full hours, powers, points of the compass."""
    return _OTHERWISE.sub("", text)


def is_formula(letters: str) -> bool:
    """Returns whether the letters beside a raised or lowered digit are a unit, a variable or a formula (CaCO₃). Longer words
    in small letters have the number of a note."""
    return len(letters) <= _LETTERS_OF_A_UNIT or any(map(str.isupper, letters[1:]))
