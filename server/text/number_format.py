"""Writes the numbers of a translation in the format of its language: those that their source has in its own format."""

from __future__ import annotations

import re

from server.text.languages import primary_subtag
from server.text.numbers import UNIT

_NARROW_SPACE = "\u202f"
_POINT, _COMMA, _FRENCH = (".", ","), (",", "."), (",", _NARROW_SPACE)
SEPARATORS = {
    **dict.fromkeys("en zh ja ko th he".split(), _POINT),
    **dict.fromkeys("de es it nl pt da id tr el ro hr sl sr is".split(), _COMMA),
    **dict.fromkeys("fr ru uk pl cs sk sv nb no fi bg hu".split(), _FRENCH),
}
"""Decimal and thousands separator by language."""
_SPACES = " \u00a0\u202f"
_END = rf"(?:(?=(?:{UNIT}|[A-Za-z])(?!\w))|(?!\w|[.,:/-]\w))"
_NUMBER = re.compile(rf"\d(?<![\w.,:/-]\d)(?:\d*(?:[.,]\d+)+|\d{{0,2}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?)" + _END)
"""Numbers with a separator."""
_AMOUNT = re.compile(
    rf"[{_SPACES}]?(?:[%‰°$€£¥]|(?:{UNIT}|[smhgl])(?!\w)|mio|mrd|milli|billi|mille|mil\b|dollars?|euros?|cents?)",
    re.IGNORECASE,
)
"""What follows a number that is certainly an amount."""
_LABELS = frozenset(
    "version release update build section chapter figure table appendix part step rule kapitel abschnitt abbildung tabelle teil"
    " chapitre partie tableau capítulo sección parte figura tabla versión".split()
)
"""Words before a number with a point that is no amount."""
_LONGEST_WORD = 30


def with_formats(source: str, target: str, source_language: str, target_language: str, everything: bool = False) -> str:
    """Returns a translation of the same length, whose amounts have the format of its language instead of that of the source, and
    others (versions, times, dates) their own separators. In languages with a decimal point, 2.5 may be an amount or a version: if
    it is not certain, and `everything` is False, it stays. So do numbers of languages without a known format."""
    given, wanted = [SEPARATORS.get(primary_subtag(language)) for language in (source_language, target_language)]
    numbers = list(_NUMBER.finditer(source)) if given and wanted else []
    if not numbers or given is None or wanted is None:
        return target
    groups = _SPACES if given[1] in _SPACES else given[1]
    separators = str.maketrans(given[0] + groups, wanted[0] + wanted[1] * len(groups))
    labels = [_is_label(number, source, target, given) for number in numbers]
    for number, is_label in zip(numbers, labels, strict=True):
        written, start = number[0], number.start()
        certain = given[0] != "." or given[1] in written or source[max(0, start - 1) : start] in ("$", "€", "£", "¥")
        if is_label or not (everything or certain or _AMOUNT.match(source, number.end())):
            if not any(labels):
                continue
            form = written  # also beside a version, as in 8.1, 8.2 and 8.3
        else:
            form = written.translate(separators)
        between = "[.,]" if written.replace(".", "").replace(",", "").isdigit() else f"[.,{_SPACES}]"
        parts = between.join(re.split(rf"[.,{_SPACES}]", written))
        target = re.sub(rf"(?<![\w.,:/-]){parts}{_END}", form, target)
    return target


def _is_label(number: re.Match[str], source: str, target: str, given: tuple[str, str]) -> bool:
    """Returns whether a number is not in the `given` format, or follows a label, or a name that the translation has too."""
    written, parts = number[0], number[0].split(".")
    groups = f"[{_SPACES}]" if given[1] in _SPACES else rf"\{given[1]}"
    fraction = rf"\{given[0]}\d+"
    if not re.fullmatch(rf"\d{{1,3}}(?:{groups}\d{{3}})+(?:{fraction})?|\d+{fraction}", written):
        return True
    if len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts):  # an address
        return True
    if len(parts) != 2 or not "".join(parts).isdigit():
        return False
    before = source[max(0, number.start() - _LONGEST_WORD) : number.start()].rstrip(" ").rsplit(None, 1)[-1:]
    word = before[0].lstrip("(\"'") if before else ""
    same = rf"(?<!\w){re.escape(word)} {parts[0]}[.,]{parts[1]}(?!\w)"
    is_name = word[:1].isupper() and word.isalnum()
    return word.casefold() in _LABELS or (is_name and re.search(same, target) is not None)
