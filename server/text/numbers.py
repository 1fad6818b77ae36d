"""Reads the numbers of a text, compares them by value, and writes them in the format of a language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from server.kept import kept
from server.text.languages import primary_subtag
from server.text.spans import SPACES, WORD

_POINT, _COMMA, _FRENCH = (".", ","), (",", "."), (",", "\u202f")
SEPARATORS = {
    **dict.fromkeys("en zh ja ko th he".split(), _POINT),
    **dict.fromkeys("de es it nl pt da id tr el ro hr sl sr is".split(), _COMMA),
    **dict.fromkeys("fr ru uk pl cs sk sv nb no fi bg hu".split(), _FRENCH),
}
"""Decimal and thousands separators by language."""
_SMALL_WORDS = {
    "en": "two|both|second|twi|pair|couple|doub|half three|thir four|quarter fiv|fif six|half"
    " seven eight nin ten|decad eleven twel|noon|midnight|doz",
    "de": "zwei|beid|zwo|doppel|paar|halb|sekund drei|dritt vier fünf sech|halb sieb acht"
    " neun zehn elf zwölf|mittag|mitternacht|dutzend",
    "fr": "deux|second|doub|pair|demi trois|tier quat|quar cinq six|demi sept hui neuf|neuv "
    "dix|décen onz douz|midi|minuit",
    "es": "dos|segund|dob|par|medi|amb tres|terc cuatr|cuart cinc|quint seis|sext|medi"
    " siet|sépt och|octav nuev|noven diez|déc once|undéc doce|duodé|mediod|medianoche",
}
"""Beginnings of the words for 2 to 12. German ones may be within a word."""
UNIT = (
    r"km/h|m/s|mph|[dcmnµμ]?m|[kKMGT]i?[Bo]|[kMG]bit/s|[kMGmµμ]?(?:Wh?|Hz|Vo?|Ah?|J|N|Pa|eV|cal)|[kmµμ]?(?:[gsΩF])|[dcmh]?[lL]|km"
    r"|hPa|h[ag]|min|°[CF]|px|r?em|dB|dpi|fps|ft(?: \d+ in)?|yd|oz|lbs?"
)
"""Units of the international system, and abbreviations that languages share."""
ORDINAL_ENDINGS = r"st|nd|rd|th|\.?er|re|i?[eè]me|e|\.?[ºª]"
RAISED = (
    r"\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u2188\u2460-\u24ff\U0001d400-\U0001d7ff"
)
"""Raised and enclosed characters, which a vocabulary may write as ordinary ones: 3½ as 31⁄2."""
HALVES = {
    word: hours
    for words, hours in (
        ("nachmittags nachmittag après-midi tarde afternoon", range(12)),
        ("morgen morgens vormittags vormittag matin mañana madrugada morning", range(0)),
        ("mitternacht minuit medianoche midnight", range(0)),
        ("mittags mittag midi mediodía noon", range(10)),
        ("abends abend soir evening tonight", range(1, 12)),
        ("nachts nacht nuit noche night", range(6, 12)),
    )
    for word in words.split()
}
"""Words for parts of the day, with the hours (12 is 0) that are p.m. in them."""
_HALF = "|".join(HALVES).replace("|morgen|", "|(?<=am )morgen|").replace("mañ", "(?<=la )mañ")
_KINDS = {
    "ordinal": rf"(?:{ORDINAL_ENDINGS})(?!\w)",
    "decade": r"(?<=\d\d\d0)['’]?s(?!\w)",
    "billion": rf"[{SPACES}]?(?:milliard|billion|mil millones|mrd|bn\b)",
    "thousand": rf"[{SPACES}]?(?:thousand|tausend|mil(?:les?)?\b)",
    "million": rf"[{SPACES}]?(?:mill|mio\b)",
    "clock": rf"[{SPACES}]?(?:(?:(?:h(?= [cdp])|heures?|uhr|o'clock) )?"
    rf"(?:(?:tomorrow|mañana|hoy|demain|morgen|heute|del?|por|la|du|in|the|at|am|ce|esta|this|de l')[ ]?){{0,3}}(?:{_HALF})\b"
    r"|[ap]\.? ?m\b|heures?\b|uhr|o'clock)",
    "unit": rf"(?-i:[{SPACES}]?(?:{UNIT})|[smghlxd°º])(?![\w{RAISED}/+='’])",
    "amount": rf"[{SPACES}]?(?:[‰°]|%(?!\w)|[$€£¥](?!\d)|[smhgl](?!\w)|dollar|euro|cent|per "
    r"?cent|prozent)",
}
"""Kinds of words after a number."""
_NUMBER = re.compile(
    rf"(?P<begin>(?<![\w.,:/-])(?:(?-i:[A-Z]{{0,3}})[$€£¥]|[+−-])?|(?<=[\d^]-))?(?P<digits>(?<![\d.,+])(?<!\d[{SPACES}])\d{{1,3}}(?:[{SPACES}]\d{{3}})+(?!\d)(?:[.,'’]\d+)*"
    rf"|\d(?:[\d.,:/'’–-]*\d)?)(?=(?:{'|'.join(f'(?P<{name}>{words})' for name, words in _KINDS.items())})?)"
    r"(?P<end>(?:\s?(?:[‰°€]|%(?![<({@$%*#]|[.+\-]?\d)))?(?!\w|[.,:/'’]\w))?",
    re.IGNORECASE,
)
"""Digits and separators, with a sign or currency. In a word (A4, 21st, COVID-19) `end` or `begin` is
missing."""
_PART = re.compile(rf"\d+(?:[{SPACES}.,'’]\d+)*")
_ROMAN = re.compile(
    r"(?<!\w)(?=[IVXLCDM])M{0,3}(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})(?![A-Z\d_])"
)
_ROMAN_VALUES = dict(zip("IVXLCDM", (1, 5, 10, 50, 100, 500, 1000), strict=True))
_TIME = re.compile(
    rf"(?<=\d)(?:\.(?=\d\d (?:Uhr|[ap]\.?m\b)|\d\d[ap]m\b)|[{SPACES}]?h[{SPACES}]?(?=\d\d\b))"
)
OTHERWISE = re.compile(
    r"(?<=\d):00\b|(?<=:\d\d) ?[ap]\.?m\b\.?|(?<=m)[23²³](?!\w)|(?<=°) ?[NSEWO]\b|(?<=\d)s\b"
)
"""Parts that translations omit: full hours, halves of the day, powers of units, points of the
compass, plurals."""
_ORDINAL = re.compile(
    rf"(?<![\w.,:/-])(?:(?P<number>\d{{1,3}})(?:{ORDINAL_ENDINGS})|(?!Ver?\b(?! (?:siè|Rép|arr)))"
    r"(?P<roman>[IVX]+)(?:er|i?[eè]me|[eᵉ])"
    r"|siglos? (?P<century>[IVX]+))(?!\w)"
)
_NTH = re.compile(r"(?<![\w.,-])(\d{1,3})(?:st|nd|rd|th)(?!\w)")
_CLOCK = re.compile(rf"(?<!\d)(\d\d?)(?:[.:]|[{SPACES}]?h[{SPACES}]?)(\d\d)(?!\d)")
_SPOKEN = re.compile(
    rf"(?<![\w.,:/-])(\d\d?)[{SPACES}]?(?:h|[uU]hr|heures?)[{SPACES}]?(\d\d?)(?![\w%€]|[.,:]\d)"
)
_ONE_SEPARATOR = str.maketrans(",'’", "...")
_POWERS = {"thousand": 3, "million": 6, "billion": 9}
_AMOUNTS = frozenset({"amount", "unit", *_POWERS})
"""Kinds of numbers that cannot be versions."""
_IMPERIAL = re.compile(
    r"\d[\s-](?:miles?|mph|meilen?|millas?|milles|inch(?:es)?|zoll|pouces?|pulgadas?|feet|foot|fuß|pieds?|pies|yards?|pounds?|lbs|pfund|°F|fahrenheit)\b",
    re.IGNORECASE,
)
"""Measures that people convert."""
_BEFORE = frozenset(
    "the his her their my our your its early mid late at about around after before from until till "
    "between à vers dès avant après la las um ab bis gegen vor nach".split()
)
"""Words before ages, decades and times, where "s" and "h" are not units."""
_LONGEST_WORD, _LONGEST_SIZE = 30, 15


class Number(NamedTuple):
    """A number at [start, end) of a text with its signs. It is `written` from `digits` on, and
    `values` are those of its parts: 3 and 5 of 3/5. The word after it has a `kind` and ends at
    `until`. A number is `whole`, or part of a word, which it may begin (`begins`)."""

    start: int
    end: int
    digits: int
    written: str
    values: tuple[str, ...]
    kind: str = ""
    whole: bool = True
    begins: bool = True
    until: int = 0

    @property
    def is_small(self) -> bool:
        """Whether the number is often written as a word; not the 3 of 978-3-16."""
        return len(self.values) == 1 and self.values[0].isdigit() and int(self.values[0][:3]) <= 12

    @property
    def last(self) -> int:
        return self.digits + len(self.written)

    @property
    def sizes(self) -> Iterator[float]:
        """The values of the parts; that of the last one times a word such as million."""
        for place, value in enumerate(self.values, 1):
            power = _POWERS.get(self.kind, 0) if place == len(self.values) else 0
            has_size = len(value) <= _LONGEST_SIZE and value.count(".") < 2
            has_size = has_size and self.written[:2] != "00"
            yield round(float(value) * 10**power, 6) if has_size else -1.0


@kept(1024)
def numbers(text: str) -> Sequence[Number]:
    """Returns the numbers of a text in order, including those within words."""
    found: list[Number] = []
    for match in _NUMBER.finditer(text):
        written, (start, end), at = match["digits"], match.span(), match.start("digits")
        before, begins = text[max(0, at - 2) : at], match["begin"] is not None
        kind = next((name for name in _KINDS if match[name]), "")
        if kind == "unit" and match["unit"].strip() in ("s", "h"):
            word = text[max(0, at - 7) : at - 1].replace("-", " ").rpartition(" ")[2].lower()
            if before[-1:] in tuple("'’") or (before[-1:] in tuple(" -") and word in _BEFORE):
                kind = "clock" if match["unit"] == "h" else "decade"
        values = [_plain(part) for part in _PART.findall(written)]
        whole = begins and match["end"] is not None
        until = max([match.end(name) for name in _KINDS])
        found.append(Number(start, end, at, written, tuple(values), kind, whole, begins, until))
    return found


def measures(text: str) -> list[Number]:
    units = [
        each
        for each in numbers(text)
        if each.kind == "unit" and each.begins and each.start == each.digits
    ]
    units = [each for each in units if {*":/'’–-"}.isdisjoint(each.written)]
    return [each for each in units if text[each.start - 1 : each.start] not in tuple("+$€£¥")]


class Difference(NamedTuple):
    """The numbers that a translation `lacks` and `adds`, and the values that it writes in `other`
    ways (`_paired`)."""

    lacks: Sequence[Number] = ()
    adds: Sequence[Number] = ()
    other: Set[str] = frozenset()


_Part = tuple[str, float, Number]
"""The value and the size of a part of a number, and the number."""


def number_difference(source: str, target: str, language: str = "") -> Difference:
    """Compares numbers by value. A small number may be a word of the target `language`; in a language
    without known words, unless the target adds a number. A large number that begins a word (18th,
    1990s) may be anywhere in the target."""
    given, written = numbers(source), numbers(target)
    values, found = [
        Counter([value for each in side for value in each.values]) for side in (given, written)
    ]
    somewhere = _values(target)
    said = {roman_value(word) for word in _ROMAN.findall(source) if is_roman(word)}
    if not given and not said <= somewhere:
        return Difference(adds=written)
    if not given or values == found:
        return Difference()
    lost, added = _beyond(given, found), _beyond(written, values)
    if lost and bool(_IMPERIAL.search(source)) != bool(_IMPERIAL.search(target)):
        return Difference()
    lost, other = _paired(lost, added, given)
    romans = Counter(map(roman_value, _ROMAN.findall(source)))
    adds = []
    for value, _, each in added:
        small = each.is_small and any(_may_be_word(value, source, code) for code in _SMALL_WORDS)
        if not _take(romans, value) and (value in values or not small):
            adds.append(each)
    lacks = [
        number
        for value, _, number in lost
        if (number.whole or (number.begins and value not in somewhere and not number.is_small))
        and not (number.is_small and _may_be_word(value, target, language, not adds))
    ]
    return Difference(lacks, adds, other)


def _beyond(side: Sequence[Number], others: Counter[str]) -> list[_Part]:
    """Returns the parts of numbers that `others` have less often, those of whole numbers first."""
    left = others.copy()
    parts = list[_Part]()
    for number in sorted(side, key=lambda each: not each.whole):
        for value, size in zip(number.values, number.sizes, strict=True):
            if not _take(left, value):
                parts.append((value, size, number))
    return parts


def _take(counts: Counter[str], value: str) -> bool:
    counts[value] -= 1
    return counts[value] >= 0


def _paired(
    lost: Sequence[_Part], added: list[_Part], given: Sequence[Number]
) -> tuple[list[_Part], set[str]]:
    """Removes from `added` the parts that equal a lost one with a word such as million, by the other
    clock, or as a year without its century. Returns the lost parts left, and the values of these
    pairs."""
    both = (*given, *[number for _, _, number in added])
    clock = any(each.kind == "clock" or ":" in each.written for each in both)
    sizes: dict[float, list[_Part]] = {}
    for part in reversed(added):
        sizes.setdefault(part[1], []).append(part)
    rest, other = list[_Part](), set[str]()
    for part in lost:
        size = part[1]
        ways = list[float]()
        if any(each.kind in _POWERS for _, _, each in (part, *sizes.get(size, ()))):
            ways.append(size)
        if clock and 0 <= size < 24:
            ways += size - 12, size + 12
        if 1900 <= size < 2100:
            ways.append(size % 100 or -1)
        elif 10 <= size < 100:
            ways += size + 1900, size + 2000
        if same := next((found for way in ways if way >= 0 and (found := sizes.get(way))), None):
            same.pop()
            other.add(part[0])
        else:
            rest.append(part)
    added[:] = [part for parts in sizes.values() for part in parts]
    return rest, other


@kept(64)
def _may_be_word(value: str, target: str, language: str, otherwise: bool = False) -> bool:
    """Returns whether a translation may have a small number as a word, or `otherwise` in a language
    without known words."""
    code, text = primary_subtag(language), target.lower()
    if code not in _SMALL_WORDS or int(value) < 2:
        return otherwise
    beginnings = tuple(_SMALL_WORDS[code].split()[int(value) - 2].split("|"))
    if code == "de":
        return any(map(text.count, beginnings))
    return any(word.startswith(beginnings) for word in WORD.findall(text))


def spoken(text: str, target: str, language: str) -> list[tuple[int, int, str]]:
    """Returns the ordinals (2nd, XVIe, siglo XX) and times (9 Uhr 15) that a translation lacks, with
    their forms in its language."""
    code, lost = primary_subtag(language), list[tuple[int, int, str]]()
    given = [*_ORDINAL.finditer(text)] if code in _SMALL_WORDS else []
    said = _values(target if given else "")
    values = [each["number"] or roman_value(each["roman"] or each["century"]) for each in given]
    said |= {
        value
        for value in {*values}
        if int(value) <= 12 and _may_be_word(value, target, language, True)
    }
    for each, value in zip(given, values, strict=True):
        if value not in said:
            after = text[each.end() + 1 : each.end() + 8].lower()
            is_century = bool(each["century"]) or after.startswith(("cent", "siè", "jahrh"))
            span = each.span("century" if each["century"] else 0)
            lost.append((*span, _ordinal(value, code, is_century)))
    torn = [*_SPOKEN.finditer(text)]
    times = {
        (int(hour) % 12, int(minute)) for hour, minute in _CLOCK.findall(target if torn else "")
    }
    for time in torn:
        hour, minute = map(int, time.groups())
        if (hour % 12, minute) not in times:
            form = f"{hour} h {minute:02}" if code == "fr" else f"{hour}:{minute:02}"
            lost.append((*time.span(), form + " Uhr" * (code == "de")))
    return lost


def _values(text: str) -> set[str]:
    values = {value for each in numbers(text) for value in each.values}
    return values.union(map(roman_value, _ROMAN.findall(text)))


def _ordinal(value: str, language: str, is_century: bool) -> str:
    """Returns an ordinal in a language. French and Spanish centuries are Roman numerals."""
    if language == "en":
        ending = {"1": "st", "2": "nd", "3": "rd"}.get(value[-1], "th")
        return value + ("th" if value[-2:-1] == "1" else ending)
    if language != "de" and is_century:
        tens, ones = divmod(int(value), 10)
        value = "X" * tens + ",I,II,III,IV,V,VI,VII,VIII,IX".split(",")[ones]
        return value + "e" * (language == "fr")
    return value + {"de": ".", "fr": "er" if value == "1" else "e"}.get(language, ".º")


def with_endings(text: str) -> str:
    """Returns an English text with the right endings of ordinals: 23rd, 11th."""
    return _NTH.sub(lambda nth: _ordinal(nth[1], "en", False), text)


def roman_value(numeral: str) -> str:
    values = [_ROMAN_VALUES[letter] for letter in numeral.upper()]
    return str(sum(value if value >= after else -value for value, after in pairwise([*values, 0])))


def is_roman(word: str) -> bool:
    """Returns whether a word is a Roman numeral of two letters or more (three with L, C, D or M). In
    small letters only numerals of i, v and x count, without vi."""
    if word.islower() and word != "vi" and {*word} <= {*"ivx"}:
        word = word.upper()
    least = 1 if {*word} <= {*"IVX"} else 2
    return len(word) > least and _ROMAN.fullmatch(word) is not None


def _plain(number: str) -> str:
    """Returns a number as a plain decimal. 1,234.5 and 1.234,5 are equal; 1.234.5, 1234.500, 0 and 00
    are different."""
    number = "".join(number.split())
    separators = [character for character in number if not character.isdigit()]
    groups = number.translate(_ONE_SEPARATOR).split(".")
    is_grouped = (
        len(groups) > 1 and len(groups[0]) < 4 and all(len(group) == 3 for group in groups[1:-1])
    )
    if is_grouped and len(groups[-1]) == 3 and len({*separators}) < 2:
        plain = "".join(groups)
    elif is_grouped and separators[-1] not in separators[:-1]:
        plain = "".join(groups[:-1]) + "." + groups[-1]
    else:
        plain = ".".join(groups)
    return plain.lstrip("0") if plain.strip("0.") else plain


def with_colons(text: str, source: str = "") -> str:
    """Returns a text with colons in its times (14.30 Uhr, 9 h 05), unless the `source` has verses
    (John 3:16)."""
    times = [each for each in (numbers(source) if ":" in source else ()) if ":" in each.written]
    before = [source[: each.start].rstrip(" (").rpartition(" ")[2].lower() for each in times]
    is_verse = times and _BEFORE.isdisjoint(before) and "clock" not in [each.kind for each in times]
    return text if is_verse else _TIME.sub(":", text)


def with_formats(
    source: str, target: str, source_language: str, target_language: str, everything: bool = False
) -> str:
    """Returns a translation with amounts in the format of its language; its length is the same.
    Versions and times keep their separators. In a language with a decimal point 2.5 may be a
    version, so it changes only with `everything`."""
    given, wanted = [
        SEPARATORS.get(primary_subtag(language)) for language in (source_language, target_language)
    ]
    if given is None or wanted is None:
        return target
    parts = list(_separated(source))
    separators = str.maketrans(
        dict.fromkeys((*given[1], *SPACES), wanted[1]) | {given[0]: wanted[0]}
    )
    labels = [
        each.kind == "clock" or _is_label(part, at, source, target, given)
        for part, at, each in parts
    ]
    forms = dict[str, str]()
    for (written, _, number), is_label in zip(parts, labels, strict=True):
        certain = everything or given[0] != "." or given[1] in written or number.kind in _AMOUNTS
        certain = (certain or source[number.digits - 1] in "$€£¥") and not is_label
        if certain or any(labels):  # also beside a version, as in 8.1, 8.2 and 8.3
            form = written.translate(separators) if certain else written
            # without a unit, people write no three decimals: 1,000 is a thousand
            is_group = given[0] == "," in written and "." not in _plain(written)
            if is_group and number.kind != "unit" and written[0] != "0":
                form = written.replace(",", wanted[1])
            forms[_key(written)] = forms[_key(written).replace(" ", ".")] = form
    for each in numbers(source):
        if each.whole and each.written.isdigit() and 3 < len(each.written) <= _LONGEST_SIZE:
            grouped = f"{int(each.written):,}"
            forms.setdefault(grouped.replace(",", "."), grouped.replace(",", wanted[1]))
    for written, start, _ in reversed(list(_separated(target))):
        form = forms.get(_key(written), "")
        if len(form) == len(written):
            target = target[:start] + form + target[start + len(form) :]
    return target


def _separated(text: str) -> Iterator[tuple[str, int, Number]]:
    for number in numbers(text):
        is_whole = number.whole or (number.begins and number.kind in _AMOUNTS)
        for part in _PART.finditer(text, number.digits, number.last) if is_whole else ():
            if not part[0].isdigit() and {*":/'’"}.isdisjoint(number.written):
                yield part[0], part.start(), number


def _key(written: str) -> str:
    return " ".join(written.translate(_ONE_SEPARATOR).split())


def _is_label(written: str, start: int, source: str, target: str, given: tuple[str, str]) -> bool:
    """Returns whether a number is not in the `given` format, or follows a name that the translation
    has too."""
    parts = written.split(".")
    whole, sign, decimals = written.partition(given[0])
    first, *groups = given[1].join(whole.split()).split(given[1])
    is_grouped = not groups or (len(first) < 4 and {len(group) for group in groups} == {3})
    is_address = len(parts) == 4 and all(
        part.isdigit() and int(part) < 256 and (part == "0" or part[0] != "0") for part in parts
    )
    if (
        is_address
        or not is_grouped
        or not "".join((first, *groups, decimals if sign else "")).isdigit()
    ):
        return True
    if len(parts) != 2 or not "".join(parts).isdigit():
        return False
    before = source[max(0, start - _LONGEST_WORD) : start].rstrip(" ").rsplit(None, 1)[-1:]
    word = before[0].lstrip("(\"'") if before else ""
    same = any(f" {word} {parts[0]}{sign}{parts[1]}" in f" {target}" for sign in ".,")
    return word[:1].isupper() and word.isalnum() and same
