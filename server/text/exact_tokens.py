"""The one comparison of a translation with its source: of exact tokens, which a translation has as often and as written.

These are tokens with a digit, or with a sign that is neither a letter nor ordinary punctuation; and names of files and
camelCase. Numbers are compared by value, measures also with their unit in words, and of a word with the mark of a note
(`house[15]`) only the mark. A model usually copies all of them, so nothing is masked before it is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from unicodedata import normalize

from server.text.numbers import (
    find_numbers,
    is_formula,
    lost_ordinal,
    number_difference,
    number_values,
    roman_value,
    written_otherwise,
)
from server.text.segmentation import Span, blanked
from server.text.syntax import plain
from server.text.syntax.match import Match

_EMOJI = (
    r"\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u20e3\u200d\U000e0020-\U000e007f"
)
_OF_PROGRAMS = r"\\^`{|}~<>_*"
_SIGN = (
    _OF_PROGRAMS + r"=#+\u00a2-\u00a7\u00a9\u00ac\u00ae-\u00b1\u00b6\u00d7\u00f7\u2020\u2021\u2030-\u2034\u203f\u2040"
    r"\u20a0-\u20cf\u2100-\u214f\u2200-\u2211\u2213-\u22ff\u2500-\u25ff\u27c0-\u27ef\u2800-\u28ff\u2900-\u2aff"
)
"""Neither letters nor punctuation: currencies but for the dollar, mathematics, ©, §, signs of programs."""
_RAISED = r"\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u2188\u2460-\u24ff\U0001d400-\U0001d7ff"
"""A vocabulary may write them as ordinary digits and letters: 3½ as 31⁄2."""
_COMBINING = r"\u0300-\u036f\u0483-\u0489\u20d0-\u20ff"
SIGN, RAISED = re.compile(f"[{_SIGN}]"), re.compile(f"[{_RAISED}]")
WORD, DIGIT, _ALNUM = re.compile(r"\w+"), re.compile(r"\d"), re.compile(r"[^\W_]")
_SIGN_OR_DIGIT = re.compile(rf"[{_SIGN}\d«»\ufffd]")
_PROGRAM_SIGN = re.compile(f"[{_OF_PROGRAMS}†‡]")
_EMOJIS = re.compile(rf"[{_EMOJI}]+(?:\+\w+|[A-Z](?!\w)|(?<=[⇧⌃⌘⌥])[A-Z][a-z]+)*")
"""Emoji, arrows, and signs of keys with those that are pressed with them: ⌘+C, ⌘Esc."""
_TOKEN = re.compile(rf"{_EMOJIS.pattern}|(?:[^\s–—…“”„‟‘’‚«»‹›¿¡{_EMOJI}]|(?<=\d)[–’](?=\d))+")
"""Characters without a space, a quote or a dash between words among them."""
_MARK = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=[,.;:!?])|(?<!\S))(?:\[(?:\d{1,4}|[A-Za-z])\])+(?!\w)"
    r"|(?:(?<=[^\W\d_]{3})|(?<!\S))\(\d{1,4}\)(?!\w)|(?<=[^\W\d_]{3})/\d{1,4}(?![\w/.-])"
)
"""The number or letter of a note, which stands at a word: children[15], dogs[a][b], (15), house/15."""
_UNIT = (
    r"km/h|m/s|mph|[kcmnµμ]?m|[kmµ]g|[cmh]l|[kKMGT]i?B|[kMG]bit/s|[kMG]W|[kMG]?Wh|[kMG]?Hz|°[CF]|px|r?em|dB|[mn]s|mAh|kcal|kJ"
    r"|hPa|dpi|fps"
)
_AMOUNT = r"(?<![\w.,:/+$€£¥-])(\d+(?:[.,]\d+)*)"
_MEASURE = re.compile(
    rf"{_AMOUNT}(?:[ \u00a0\u202f](?P<spaced>{_UNIT})"
    r"|(?!(?:st|nd|rd|th|er|re|e|ème|[ap]m|bn|ern|a|o|h\d+)(?!\w)|(?<=\d\d\d0)s)(?P<unit>[A-Za-zµμΩ]{1,4}))(?![\w/+='’])"
)
_AMOUNT_OF_WORD = re.compile(rf"{_AMOUNT}[ -]?(°[cf]|[^\W\d_]+(?:/[^\W\d_])?)")
"""A number and the word or unit after it, in a folded text."""
_SPACED = re.compile(rf"\d[ \u00a0\u202f](?:{_UNIT})$")
_NO_MEASURE = re.compile(
    r"(?:['’]|(?<!\w)(?:the|his|her|their|my|our|your|its|early|mid|late|à|vers|dès|at|um|las?)[ -])$", re.IGNORECASE
)
"""Before a decade, an age or a time: the 80s, in her 20s, à 3h."""
_PHONE = re.compile(
    r"(?<![\w(+])(?:\+\d{1,3}[ /.-]?(?:\(\d{1,5}\)[ /.-]?)?|\(\d{2,5}\)[ /-]?)(?:\d[ /.-])?\d{2,}(?:[ /.-]\d{2,})*(?!\w)"
)
_SERIAL = re.compile(
    r"(?<![^\s(\[])(?:[A-Z]{2,5} \d+(?:(?:-\d+){2,}|[A-Z])|[A-Z]{2}\d\d(?: [\dA-Z]{4})+(?: \d{1,3})?|[A-Z]{3}/[A-Z]{3})(?!\w)"
)
"""ISBN 978-3-16, SN 1987A, DE89 3704 0044, EUR/USD."""
_PROGRAMS = frozenset(
    "git npm npx yarn pnpm pip3 pip docker kubectl apt-get apt brew cargo dotnet composer python3 python systemctl helm terraform"
    " ssh scp curl wget ls cd rm cp mv mkdir chmod chown grep tar sudo".split()
)
_VERB = (
    "install|uninstall|add|remove|update|upgrade|run|build|up|down|start|stop|restart|status|init|clone|pull|push|commit|checkout"
    "|merge|rebase|reset|stash|log|diff|exec|compose|test|publish|apply|get|describe|logs|enable|apt|apt-get|systemctl"
)
_STOP = r"(?:and|or|to|in|on|for|if|then|first|now|again|before|und|oder|um|im|auf|et|ou|pour|dans|y|o|para|en)\b"
_ARGUMENT = (
    rf"(?:(?:{_VERB})(?![\w-]|\.\w)|-{{0,2}}[\w.@~/:=+-]{{0,60}}[.@~/:=+\d-][\w.@~/:=+-]{{0,60}}(?<=[\w/])(?![\w/])"
    rf"|(?!{_STOP})[a-z][\w-]{{1,60}}(?=[.,;:!?)]|$| {_STOP}| \d))"
)
_COMMAND = re.compile(rf"(?<![\w./-])(?:{'|'.join(sorted(_PROGRAMS))})(?: {_ARGUMENT}){{1,9}}")
"""git pull --rebase."""
_IN_WORDS = {"h": ("st", "uh", "o", "p", "a"), "x": ("mal", "fois", "fach", "vec", "tim"), "d": ("tag", "jo", "j")}
"""How words begin that say a unit, beside its own letter."""
_ENDING = (
    "com|org|net|info|eu|uk|de|fr|es|ch|edu|gov|pdf|txt|docx?|xlsx?|pptx?|od[tsp]|csv|zip|png|jpe?g|gif|svg|html?|xml|json|ya?ml"
    "|toml|ini|cfg|log|md|py|js|ts|css|php|sh|exe|mp[34]"
)
_NAME = re.compile(
    rf"(?<![\w@./\\-])(?:[\w-]+(?:\.[\w-]+)*\.(?:{_ENDING})|\*\.\w+|\w{{40,}}|[a-z_]\w+(?:\.[^\W\d]\w+){{2,}})(?!\w)"
    r"|(?<!\S)\.[a-z][\w-]+|(?<!\w)\((?:[a-h]|[ivx]{1,4})\)(?!\w)"
)
"""report.pdf, example.org, (ii), *.log, .profile, java.util.Map; and strings of 40 characters and more, which are not words."""
_MATH = r"=\u2200-\u2211\u2213-\u22ff"
_CODE = re.compile(
    r"\d.*[A-Za-zµμΩ°]|[A-Za-zµμΩ°].*\d|\d:|:\d|^\d+(?:(?:[.-]\d+){2,}|/\d+)$|\d\.\d+[/,]\d|\d'\d"
    rf"|[\\^`{{|}}~<>{_COMBINING}]|[^\W_]_+[^\W_]|\w::\w|\w:\w+:\w|[^\W\d_]#|\w\+[\w+]|\w[{_MATH}]|[{_MATH}]\w|\(\)"
    rf"|[^\w\s][{_SIGN}][^\w\s]|(?<![A-Za-z])(?:[a-z]{{2,}}(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+){{3,}})(?![a-z])"
)
"""Letters and digits, ratios and times, versions and dates, signs of programs, camelCase."""
_TRANSLATED = re.compile(
    r"\d+(?:[.,:]\d+)?(?:st|nd|rd|th|\.?er|re|e|ème|[ap]m|bn|h\d*|(?<=0)s|(?<=0)ern|['’]s)?(?:-[^\W\d_][a-zß-ÿ]+)*|[a-z]+-\d+s"
    r"|\d+º[A-Z]?|\d{1,3}(?:[.,]\d{3})+[.,]?\d*|[A-Z]{0,3}[$€£¥][\d.,]+\w*"
)
"""Words and numbers that are translated: 21st, 1990s, 6pm, US$5m, 20-year-old."""
_WORDS_AFTER = re.compile(r"(?<!\.\d)(?:-[^\W\d_][a-zß-ÿ]+)+$")
_OPERAND = r"(?:[A-Za-z]|[+-]?[\w.,%]{0,20}\d[\w.,%]{0,20}[\"'′″]?)"
_EXPRESSION = re.compile(
    rf"(?<![^\s(\[]){_OPERAND}(?: (?![/&%] )[=<>!+*/^|&~%±×÷≠≤≥≈∈∉⊂∪∩→]{{1,3}} {_OPERAND})+(?!\w)"
    r"|(?<!\S)(?:\S{0,40}\d )?-(?: -)+(?!\S)|\.{4,}"
)
"""x != y, p = 0.03; - - of log lines."""
_NUMBER = r"\d(?:[\d.,:/'’–-]*\d)?"
_SIGN_WITH_NUMBERS = re.compile(
    rf"(?:(?<![\w.,:/'’–-]){_NUMBER}[ \u00a0\u202f]?)?[{_SIGN}]+(?:[ \u00a0\u202f]?{_NUMBER}(?!\w))?"
)
_ROMAN = re.compile(r"(?=[IVX]{2}$|...)M{0,3}(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})")
_CAPITALS = re.compile(r"(?<![\w:-])(?<!siglo )(?<!siglos )[IVXLCDM]{2,}(?![\w-])")
_MAY_HOLD = re.compile(
    rf"[{_SIGN}\d{_RAISED}{_COMBINING}{_EMOJI}&A-Z.:(\[-](?:(?<=[^A-Z.:(\[-])|(?<=\[)(?=[A-Za-z]\])|(?<=[a-z][A-Z])"
    r"|(?<=[IVXLCDM]{2})|(?<=[A-Z])(?=/[A-Z])|(?<=[.:])(?=[.:\w])|(?<=\()(?=[a-z]{0,4}\))|(?<=-)(?= -))|\S{40}"
)
"""Matches every text that may have exact tokens. This test is much faster than the search."""
_RATIO = re.compile(r"\d:\d")
_BEFORE_UNIT = re.compile(r"(?<=\d)[ -](?=[^\W\d_])| (?=[+(])")
_UNIT_LETTERS = "/°%abcdefghijklmnopqrstuvwxyzµμ"
_LONGEST = 300
_AROUND = "\"'([{<.,;:!?)]}>*-"
_BRACKETS = {")": "(", "]": "[", ">": "<"}
_SPELLINGS = str.maketrans("–—−‐‑’‘′”“″,\u00a0\u202f", "-----'''\"\"\".  ")
_TIME = re.compile(r"(?<=\d)(?:\.(?=\d\d Uhr)| ?h ?(?=\d\d\b))")
_OTHERWISE = re.compile(r"(?<=\d):00\b|(?<=m)[23²³](?!\w)|(?<=°) ?[NSEWO]\b|(?<=\d)s\b")
"""What translations leave out or write otherwise: full hours, powers of units, points of the compass, plurals."""
_DECIMAL = re.compile(r"(?:(?<!\w)([^\W\d_]{2,30}) )?(?<![\w.,:])(\d+)\.(\d+)(?![\w/]|[.,:]\d)")
_LABELS = frozenset("version release update build section chapter figure table appendix part step rule".split())
"""Words before a number with a point that is no amount."""


@lru_cache(maxsize=1024)
def exact_tokens(text: str) -> Sequence[Match]:
    """Returns the exact tokens of a text in order, but for pure numbers and single signs. `kind` is "mark", "measure" or
    "code"."""
    found: list[Match] = []
    if not _PROGRAMS.isdisjoint(text.split()):
        found += [Match(*command.span(), "word", "code") for command in _COMMAND.finditer(text)]
    if _MAY_HOLD.search(text) is None:
        return found
    found += [Match(*phone.span(), "number", "code") for phone in _PHONE.finditer(text)]
    found += [Match(*serial.span(), "word", "code") for serial in _SERIAL.finditer(text)]
    found += [
        Match(mark.start(), mark.end(), "point" if text[: mark.start()][-1:].strip() else "number", "mark")
        for mark in _MARK.finditer(text)
    ]
    found += [
        Match(*each.span(), "number", "measure")
        for each in _MEASURE.finditer(text)
        if each["unit"] not in ("s", "h") or not _NO_MEASURE.search(text, max(0, each.start() - 9), each.start())
    ]
    bare = blanked(text, [(match.start, match.end) for match in found]) if found else text
    if SIGN.search(text) or "&" in text or "..." in text or "- -" in text:
        found += [Match(*match.span(), "word", "code") for match in _EXPRESSION.finditer(text)]
    found = without_overlaps([*found, *_codes(bare), *_roman_numerals(text)])
    tokens: list[Match] = []
    for token in found:  # two in capitals after each other are one: SW1A 1AA
        last = tokens[-1] if tokens else token
        both = text[last.start : last.end] + text[token.start : token.end]
        if text[last.end : token.start] == " " and both.isalnum() and both.isupper():
            tokens[-1] = last._replace(end=token.end, kind="code")
        else:
            tokens.append(token)
    return tokens


def all_tokens(text: str) -> list[Match]:
    """Returns the exact tokens of a text with its signs and numbers; they may overlap."""
    return [*exact_tokens(text), *_signs(text), *_numbers(text), *_single_signs(text)]


@lru_cache(maxsize=1024)
def lost_tokens(text: str, target: str) -> Sequence[Match] | None:
    """Returns the tokens of a text that a translation lacks or doubles, or None if there are none. Where it has a sign or
    number that the text lacks, these are all tokens, or the words in capitals."""
    tokens = exact_tokens(text)
    if not tokens and _SIGN_OR_DIGIT.search(text) is None is _SIGN_OR_DIGIT.search(target):
        return None
    target = _TIME.sub(":", target)
    given, written = _folded(text), _folded(target)
    parts = {(token.kind, given[token.start : token.end]) for token in tokens}
    absent = {part for part in parts if not _is_kept(*part, given, written)}
    lost = [token for token in tokens if (token.kind, given[token.start : token.end]) in absent]
    changed = {sign for sign in (*SIGN.findall(text), *arrows_of(text)) if text.count(sign) != target.count(sign)}
    if changed:
        lost += [
            sign
            for sign in (*_signs(text), *_single_signs(text))
            if not changed.isdisjoint(text[sign.start : sign.end])
        ]
    values = {value for side in number_difference(text, target) for value in side}
    if values:
        numbers = _numbers(text)
        near = [number for number in numbers if not values.isdisjoint(number_values(text[number.start : number.end]))]
        lost += near or ([] if lost else numbers or tokens)
    odd = {"\ufffd", *_PROGRAM_SIGN.findall(target)} & set(target) - set(text)
    if odd and not lost:
        return all_tokens(text) or acronyms(text)
    return without_overlaps(lost) if lost or values else None


def _is_kept(kind: str, part: str, given: str, written: str) -> bool:
    """Returns whether a folded translation has a token as often as the folded text, or a measure with its unit in words."""
    amount = _AMOUNT_OF_WORD.match(part) if kind == "measure" else None
    if amount is None:
        count = str.count if kind == "mark" else _count
        return count(written, part) == count(given, part)
    # The amount of "1 250 kg" is written in another way, and compared as a number.
    value, unit = "" if " " in part else amount[1], amount[2]
    sides = [[(value and found[1], found[2]) for found in _AMOUNT_OF_WORD.finditer(side)] for side in (given, written)]
    wanted, same = [side.count((value, unit)) for side in sides]
    begins = unit[0], *_IN_WORDS.get(unit, ())
    in_words = [
        word
        for number, word in sides[1]
        if number == value and len(word) > 2 and word.startswith(begins) and unit not in (word, word[:-1])
    ]
    return same == wanted or same < wanted <= same + len(in_words)


def lost_numbers(text: str, target: str) -> bool:
    """Returns whether a translation lacks or doubles a number or a code of its source, or has another. It may have a
    number by the other clock, with a word such as million, or with its unit spelled out."""
    if lost_tokens(text, target) is None and not lost_ordinal(text, target):
        return False
    text, target = [_TIME.sub(":", side) for side in (text, target)]
    lacks, adds = written_otherwise(text, target)
    text, target = [_OTHERWISE.sub("", side) for side in (text, target)]
    given, written = [_code(side) for side in (text, target)]
    amounts = {_code(each[0]).rstrip(_UNIT_LETTERS) for each in _MEASURE.finditer(target)}
    for token in exact_tokens(text):
        word = text[token.start : token.end]
        part = _code(word)
        if token.kind == "mark" or written.count(part) == given.count(part):
            continue
        if _ROMAN.fullmatch(word):
            is_same = int(roman_value(word)) <= 12 or roman_value(word) in number_values(target)
        elif token.kind == "measure":  # a unit may be spelled out, but not be another one
            is_same = part.rstrip(_UNIT_LETTERS) not in amounts
        else:
            is_same = (part[-3:-2] == "-" and part[:-3] in lacks) or not any(map(str.isnumeric, word))
        if not is_same:
            return True
    return any(number_difference(text, target, lacks, adds)) or lost_ordinal(text, target, lacks)


def respelled(text: str, target: str, decimal_point: bool = True) -> str:
    """Returns a translation of the same length, with the codes and ranges of its source in their spelling: with its
    capitals, dashes and primes, and in versions with its points. `decimal_point` says that the language of the source writes
    decimals with a point."""
    spans = [(token.start, token.end) for token in exact_tokens(text) if token.kind != "mark"]
    spans = [(start, end) for start, end in spans if not _SPACED.search(text, start, end)]
    if DIGIT.search(text):
        spans += [(each.start, each.end) for each in _numbers(text) if not text[each.start : each.end].isascii()]
        spans += _versions(text, target, decimal_point)
    for written in dict.fromkeys([text[start:end] for start, end in spans]):
        if target.count(written) < text.count(written):
            for found in re.finditer(rf"(?<!\w){re.escape(_folded(written))}(?!\w)", _folded(target)):
                target = target[: found.start()] + written + target[found.end() :]
    if not text.isascii():
        for letter in set(text):  # a vocabulary has the Greek letter in place of the micro sign
            normal = normalize("NFKC", letter)
            if normal != letter and len(normal) == 1 and normal.isalpha() and not normal.isascii():
                target = target.replace(normal, letter)
    return target


def _versions(text: str, target: str, decimal_point: bool) -> list[Span]:
    """Returns the numbers with a point that are labels and no amounts: after a word that labels have, or that the translation
    repeats before them, or beside a number that keeps its point or has several."""
    numbers = [number for number in _DECIMAL.finditer(text) if decimal_point or len(number[3]) != 3]
    written = set(re.findall(r"\d+[.,]\d+", target))
    if not any(f"{number[2]},{number[3]}" in written for number in numbers):
        return []
    keeps = re.search(r"\d\.\d+\.\d", text) or any(
        len(number[3]) != 3 and f"{number[2]}.{number[3]}" in written for number in numbers
    )
    words = target.casefold()
    return [
        (number.start(2), number.end(3))
        for number in numbers
        if keeps or (word := (number[1] or "\0").casefold()) in _LABELS or f"{word} {number[2]},{number[3]}" in words
    ]


def kept_spans(text: str) -> list[Span]:
    """Returns all spans that every translation contains unchanged, but for numbers."""
    codes = [match for match in plain.matches(text) if match.role != "apostrophe"]
    return [(match.start, match.end) for match in without_overlaps([*codes, *exact_tokens(text)])]


def arrows_of(text: str) -> str:
    """Returns the guillemets if a text has them without a partner."""
    return "" if text.count("«") == text.count("»") else "«»"


def acronyms(text: str) -> list[Match]:
    """Returns the words in capitals of a text."""
    return [Match(*word.span(), "word") for word in WORD.finditer(text) if len(word[0]) > 1 and word[0].isupper()]


def without_overlaps(spans: Sequence[Match]) -> list[Match]:
    """Returns the spans in order, without those that overlap an earlier one of the sequence."""
    result: list[Match] = []
    for span in spans:
        at = bisect_left(result, span.start, key=lambda other: other.start)
        before = result[at - 1].end if at else 0
        after = result[at].start if at < len(result) else span.end
        if before <= span.start < span.end <= after:
            result.insert(at, span)
    return result


def _numbers(text: str) -> list[Match]:
    return [Match(start, end, "number") for start, end in find_numbers(text)]


def _signs(text: str) -> list[Match]:
    """Returns the signs of a text, each with the numbers beside it: "25 €", "≤ 10", "2 × 3", "©"; and guillemets without a
    partner, which are arrows."""
    spans = [
        Match(*match.span(), "number" if DIGIT.search(match[0]) else "point")
        for match in _SIGN_WITH_NUMBERS.finditer(text)
    ]
    arrows = re.finditer("[«»]", text) if arrows_of(text) else ()
    return spans + [Match(*arrow.span(), "point") for arrow in arrows]


def _single_signs(text: str) -> list[Match]:
    """Returns the signs of a text alone; they may be beside a code: § 1.401(k)-1."""
    return [Match(*sign.span(), "point") for sign in SIGN.finditer(text)]


def _codes(text: str) -> list[Match]:
    """Returns the codes of a text."""
    found: list[Match] = []
    primes = "′″" + ("" if re.search(r"(?<!\w)'(?=\w)", text) else "'")  # after an opened quote it may close it
    primes += '"' if text.count('"') % 2 or not re.search(r'(?<!\d)"', text) else ""
    for token in _TOKEN.finditer(text):
        if _MAY_HOLD.search(token[0]):
            found += _codes_of(token, primes)
    return found


def _codes_of(token: re.Match[str], primes: str) -> Sequence[Match]:
    """Returns the codes of a token. After digits the `primes` stand for minutes, feet or inches."""
    start, word = token.start(), token[0]
    if len(word) > _LONGEST:  # no word, unless its script has no spaces
        return [Match(*token.span(), "word", "code")] if word.isascii() else []
    core = word.strip(_AROUND)
    if _EMOJIS.match(word) or not _ALNUM.search(core):
        is_code = _EMOJIS.match(word) or (len(word) > 1 and SIGN.search(word))
        return [Match(*token.span(), "word" if core.isalnum() else "point", "code")] if is_code else []
    first = word.index(core)
    last = first + len(core)
    while last < len(word) and _goes_on(word, first, last, primes):
        last += 1
    core = word[first:last]
    if RAISED.search(core) and not _CODE.search(core):
        return _raised(start + first, core)
    bare = _WORDS_AFTER.sub("", core)
    code = normalize("NFC", bare)
    if bare[-1] in primes or (_CODE.search(code) and not (_TRANSLATED.fullmatch(code) and not _RATIO.search(code))):
        end = start + first + len(bare)
        return [Match(start + first, end, "number" if bare[0].isdigit() else "word", "code")]
    return [Match(start + name.start(), start + name.end(), "word", "code") for name in _NAME.finditer(word)]


def _goes_on(word: str, first: int, last: int, primes: str) -> bool:
    """Returns whether the mark at `last` belongs to the code at `first`: a prime after a digit, or a bracket or quote whose
    partner is in the code."""
    opening = _BRACKETS.get(word[last])
    if opening:
        return word.count(opening, first, last) > word.count(word[last], first, last)
    quotes = word.count('"', first, last) if word[last] == '"' else 0
    return quotes % 2 > 0 or word.startswith("()", last) or (word[last] in primes and word[last - 1].isdigit())


def _raised(start: int, word: str) -> list[Match]:
    """Returns a word with raised digits as a whole, or only the digits if they are the number of a note."""
    letters = "".join(filter(str.isalpha, RAISED.sub("", word)))
    if is_formula(letters):
        return [Match(start, start + len(word), "word" if letters else "number", "code")]
    return [Match(start + note.start(), start + note.end(), "point", "mark") for note in RAISED.finditer(word)]


def _roman_numerals(text: str) -> list[Match]:
    """Returns the Roman numerals of a text that is not in capitals."""
    found = _CAPITALS.finditer(text) if not text.isupper() else ()
    return [Match(*match.span(), "word", "code") for match in found if _ROMAN.fullmatch(match[0])]


def _count(text: str, part: str) -> int:
    """Returns how often a folded code is in a folded text, and not within another code. A genitive s may follow."""
    if part not in text or not (part[0].isalnum() and part[-1].isalnum()):
        return text.count(part)
    return len(re.findall(rf"(?<![a-z0-9]){re.escape(part)}(?!(?!s\b)[a-z0-9])", text))


def _code(text: str) -> str:
    """Returns a folded text in which 7:2 is 7-2, and units follow their numbers."""
    return re.sub(r"(?<=\d):(?=\d)", "-", _BEFORE_UNIT.sub("", _folded(text)))


def _folded(text: str) -> str:
    """Returns a text of the same length that is equal for two spellings of a code."""
    folded = text.translate(_SPELLINGS).lower()
    return folded if len(folded) == len(text) else text
