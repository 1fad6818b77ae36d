"""Compares the exact tokens of a text and its translation, which has each as often and unchanged.

A token between spaces, without punctuation at its edges, is exact if it has a digit, a sign or
unusual capitals (fooBar, EUR/USD). Numbers are compared by value, measures by value and unit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile
from unicodedata import normalize

from server.kept import kept
from server.text.numbers import (
    ORDINAL_ENDINGS,
    OTHERWISE,
    RAISED,
    is_roman,
    measures,
    number_difference,
    numbers,
    roman_value,
    spoken,
    with_colons,
)
from server.text.spans import WORD, Span, blanked
from server.text.syntax import lines, plain
from server.text.syntax.match import Match, Role
from server.text.vocabulary import core_end

_SIGN = (
    r"\\^`{|}~<>_*=#+\u00a2-\u00a7\u00a9\u00ac\u00ae-\u00b1\u00b6\u00d7\u00f7\u2020\u2021\u2030-\u2034\u203f\u2040"
    r"\u20a0-\u20cf\u2100-\u214f\u2190-\u2211\u2213-\u23ff\u2500-\u2bff\U0001f000-\U0001faff"
)
"""Characters that are neither letters nor punctuation, without the dollar."""
_PICTURE = (
    r"\u2190-\u21e6\u21e8-\u21ff\u23e9-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
    r"\ufe0f\u20e3\u200d\U000e0020-\U000e007f"
)
"""Arrows, emoji and their joiners."""
_COMBINING = r"\u0300-\u036f\u0483-\u0489\u20d0-\u20ff"
_SIGN_OR_DIGIT = re.compile(rf"[{_SIGN}\d«»\ufffd]")
_DOLLAR = re.compile(r"d[oó]l+ar|\d\s?\$(?!\d)", re.IGNORECASE)
_ODD = frozenset("\\^`{|}~<>_*†‡\ufffd")
"""Signs that a translation has only from its source."""
_TOKEN = re.compile(rf"[{_PICTURE}]+|(?:[^\s–—…“”„‟‘’‚«»‹›¿¡{_PICTURE}]|(?<=\d)[–’](?=\d))+")
_MARK = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=[,.;:!?])|(?<!\S))(?:\[(?:\d{1,4}|[A-Za-z])\])+(?!\w)"
    rf"|(?<=[^\W\d_]{{3}})(?:\(\d{{1,4}}\)(?!\w)|/\d{{1,4}}(?![\w/.-]))|(?<=[a-zß-ÿ]{{3}})[{RAISED}]+(?!\w)"
    r"|(?<!\S)\((?:\d{1,4}|[a-h]|[ivx]{1,4})\)(?!\w)|\.{4,}"
)
"""Marks of notes and items: children[15], dogs[a][b], (15), house/15, note¹, (ii)."""
_IN_WORDS = {
    "h": "h he st uh o p a", "x": "x mal fois fach vec tim", "d": "d tag jo j", "°": "deg gra", "º": "deg gra", "o": "unz ou on",
    "f": "fuß fe fo pie", "l": "lit pf po liv lib", "k": "kil", "c": "cen zen", "g": "gr gig", "s": "sec sek seg",
    "m": "met mèt mill mili milí meg min mei mile mic","v": "vol", "a": "amp",
}  # fmt: skip
"""Beginnings of the words for units, by the first letter of the unit."""
_VERB = (
    "install|uninstall|add|remove|update|upgrade|run|build|up|down|start|stop|restart|status|init|clone|pull|push|commit|checkout"
    "|merge|rebase|reset|stash|log|diff|exec|compose|test|publish|apply|get|describe|logs|enable|apt|apt-get|systemctl"
)
_STOP = r"(?:and|or|to|in|on|for|if|then|first|now|again|before|und|oder|um|im|auf|et|ou|pour|dans|y|o|para|en)\b"
_PROGRAMS = frozenset(
    "git npm npx yarn pnpm pip3 pip docker kubectl apt-get apt brew cargo dotnet composer python3 "
    "python systemctl helm terraform ssh scp curl wget ls cd rm cp mv mkdir chmod chown grep tar "
    "sudo".split()
)
_COMMAND = re.compile(
    rf"(?<![\w./-])(?:{'|'.join(sorted(_PROGRAMS))})(?: (?:(?:{_VERB})(?![\w-]|\.\w)"
    r"|-{0,2}[\w.@~/:=+-]{0,60}[.@~/:=+\d-][\w.@~/:=+-]{0,60}(?<=[\w/])(?![\w/])"
    rf"|(?!{_STOP})[a-z][\w-]{{1,60}}(?=[.,;:!?)]|$| {_STOP}| \d))){{1,9}}"
    r"|(?<!\S)[-dlbcps](?:[r-][w-][xsStT-]){3}(?![\w-])"
)
"""Commands (git pull), and permissions of files (-rw-r--r--)."""
_INFLECTED = (
    rf"\d+(?:[.,]\d+)?(?:{ORDINAL_ENDINGS}|%?ige?[mnrs]?|[ap]m|bn|h\d*|(?<=0)s|(?<=0)ern|['’]s)?(?:-[^\W\d_][a-zß-ÿ]+)*|[a-z]+-\d+['’]?s"
    r"|\d+º[A-Z]?|[Nn][or]\.\d+|\d{1,3}(?:[.,]\d{3})+[.,]?\d*|[A-Z]{0,3}[$€£¥][\d.,]+\w*"
)
"""Words with numbers that are translated: 21st, 1990s, 6pm, US$5m, 20-year-old."""
_CODE = re.compile(
    rf"(?!(?:{_INFLECTED})\Z)(?=.*?(?:#\d|\d.*[A-Za-zµμΩ°]|[A-Za-zµμΩ°].*\d|\d:|:\d|\b\d+(?:(?:[.-]\d+){{2,}}|/\d+)\Z|\d\.\d+[/,]\d"
    rf"|\d'\d|[{RAISED}{_COMBINING}]|\w::\w|\w:\w+:\w|\(\)|\b[A-Z]{{3}}/[A-Z]{{3}}\Z|\w{{40}}|\w\.[a-z][a-z\d]{{1,3}}\Z"
    r"|\b[a-z_]\w+(?:\.[^\W\d]\w+){2,}\Z|(?<![A-Za-z])(?:[a-z]{2,}(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+){3,})(?![a-z])))|\.[a-z]"
)
"""Letters with digits, times, versions, dates, camelCase, names of programs, files and addresses."""
_RUN = re.compile("[LNKF](?:S[LNKF])+|P(?:\\(?N)+|N\\(NN+|K(?:K+|C?NN[NK]*)|CD|[NF]?HH+")
"""Sequences of tokens that are one, by the letters of `_letter`: x != y, +49 (30) 123, SW1A 1AA."""
_MAY_HOLD = re.compile(
    rf"[{_SIGN}\d{RAISED}{_COMBINING}&A-Z.:(\[-](?:(?<=[^A-Z.:(\[-])|(?<=\[)(?=[A-Za-z]\])|(?<=[a-z][A-Z])"
    r"|(?<=[IVXLCDM]{2})|(?<=[A-Z])(?=/[A-Z])|(?<=[.:])(?=[.:\w])|(?<=\()(?=[a-z]{0,4}\))|(?<=-)(?= -)|(?<=[rwx]-)(?=[rwx-]))"
    r"|\S{40}|\b[ivx]{2,7}\b"
)
_CURRENCY = re.compile(
    r"(?<![\w/])(?:USD|EUR|GBP|CHF|JPY|CNY|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RUB|INR|BRL|MXN|ZAR|TRY|KRW|SGD|HKD)(?![\w/])"
)
"""Codes of currencies (ISO 4217)."""
_LOOSE = re.compile(
    r"(?<=\d)([:-]| - )(?=\d)|(?<=\d)[ -](?=[^\W\d_])| (?=[+(])|(?<![\w.,:/-])0(?=\d:)"
)
_COMPOUND = re.compile(r"(?<!\.\d)(?:-[^\W\d_][a-zß-ÿ]+)+$")
_LONGEST = 300
_AROUND = "\"'([{<.,;:!?)]}>*-"
_OPERATORS = "=<>+*^|~±×÷≠≤≥≈∈∉⊂∪∩→"
_SPELLINGS = str.maketrans("–—−‐‑’‘′”“″,\u00a0\u202f", "-----'''\"\"\".  ")


@kept(1024)
def may_hold(text: str) -> bool:
    """Returns False, fast, for a text without exact tokens and numbers."""
    return _MAY_HOLD.search(text) is not None or not _PROGRAMS.isdisjoint(text.split())


def is_plain(text: str, target: str) -> bool:
    """Returns whether a text and its translation cannot differ in exact tokens."""
    has_sign = _SIGN_OR_DIGIT.search
    return not (may_hold(text) or has_sign(text) or has_sign(target))


@kept(1024)
def exact_tokens(text: str) -> Sequence[Match]:
    """Returns the exact tokens of a text in order, without numbers and signs. Their kinds are "mark",
    "measure" and "code"."""
    if not may_hold(text):
        return []
    marks = [
        Match(
            *mark.span(),
            "point" if text[mark.start() - 1 : mark.start()].strip() else "number",
            "mark",
        )
        for mark in _MARK.finditer(text)
    ]
    codes, runs = _codes(blanked(text, [(mark.start, mark.end) for mark in marks]))
    commands = [Match(*command.span(), "word", "code") for command in _COMMAND.finditer(text)]
    units = [Match(each.start, each.until, "number", "measure") for each in measures(text)]
    return without_overlaps([*commands, *lines.sequences(text), *runs, *marks, *units, *codes])


def all_tokens(text: str) -> list[Match]:
    """Returns the exact tokens, signs and numbers of a text, which may overlap."""
    return [*exact_tokens(text), *_signs(text), *_numbers(text)]


def _codes(text: str) -> tuple[list[Match], list[Match]]:
    """Returns the codes of a text, and those of several tokens (`_RUN`)."""
    # a quote after an opening one may close it, and is no prime
    primes = "".join(["′″", *[sign for sign in "'\"" if f" {sign}" not in f" {text}"]])
    codes: list[Match] = []
    shape, places, last = "", [], 0
    for token in _TOKEN.finditer(text):
        word, start, end = token[0], *token.span()
        letter = "w"
        if not (word.isalpha() and word[1:].islower()) or _MAY_HOLD.search(word):
            core, start, is_code = _core(text, word, start, primes)
            end = start + len(core)
            letter = _letter(core, is_code)
            if is_code:
                is_point = not any(map(str.isalnum, core))
                role: Role = "point" if is_point else "number" if core[0].isdigit() else "word"
                codes.append(Match(start, end, role, "code"))
        gap = text[last:start]
        for character in ("" if gap == " " else "(" if gap in (" (", ") ") else ".") + letter:
            shape += character
            places.append((start, end))
        last = end
    spans = [(places[run.start()][0], places[run.end() - 1][1]) for run in _RUN.finditer(shape)]
    return codes, [Match(start, end, "word", "code") for start, end in spans]


def _core(text: str, word: str, at: int, primes: str) -> tuple[str, int, bool]:
    """Returns a token without the punctuation around it, its place, and whether it is a code."""
    start = len(word) - len(word.lstrip(_AROUND))
    end = core_end(word, start, max(start, len(word.rstrip("*-"))))
    while (
        end < len(word)
        and word[end] in primes
        and (word[end - 1].isdigit() or word[end - 1 : end + 1] == "''")
    ):
        end += 1
    # the point belongs to a name: .gitignore, *.txt
    if word[:start] in (".", "*.") and end > start + 1 and word[start].islower():
        start -= 1
    core = word[start:end]
    if len(word) > _LONGEST:  # no word, unless its script has no spaces
        return core, at + start, word.isascii()
    if not any(map(str.isalnum, core)):
        is_code = _SIGN_OR_DIGIT.search(word) is not None or ("&" in word and len(word) > 1)
        return word, at, is_code
    bare = _COMPOUND.sub("", core) if "-" in core else core
    if _is_code(normalize("NFC", bare), primes):
        return bare, at + start, True
    century = text[max(0, at - 7) : at + start].endswith(("siglo ", "siglos "))
    return core, at + start, is_roman(core) and not (century or text.isupper())


def _is_code(core: str, primes: str) -> bool:
    if core[-1] in primes or _CODE.match(core):
        return True
    signs = [sign for sign in _SIGN_OR_DIGIT.findall(core) if not sign.isdigit() and sign != "*"]
    if not signs:
        return False
    inner = core.strip("".join(signs) + _AROUND)
    is_short = inner.isalpha() and len(inner) <= 3 and not {*signs} <= {*"_~"}  # C++, ⌘C
    return is_short or any(sign in inner for sign in signs)


def _letter(core: str, is_code: bool) -> str:
    """Returns the kind of a token: L letter, N number, C capitals, S operator, H dash, P prefix of a
    phone number, w other; of codes K with capitals, D digits, F others."""
    if not any(map(str.isalnum, core)):
        is_operator = core in _OPERATORS or (len(core) > 1 and not core.strip(_OPERATORS + "!/&%"))
        return "H" if core == "-" else "S" if is_operator else "w"
    if core[0] == "+" and core[1:].isdigit():
        return "P"
    if core.isalnum() and core.isupper() and not core.isalpha():
        return "D" if core[:-1].isdigit() else "K"
    if is_code:
        return "D" if core.count("-") > 1 and core.replace("-", "").isdigit() else "F"
    if not core.isalpha():
        return "N" if core.lower() == core.upper() else "w"
    return "L" if len(core) == 1 else "C" if core.isupper() and len(core) < 6 else "w"


@kept(1024)
def lost_tokens(text: str, target: str, language: str = "") -> Sequence[Match] | None:
    """Returns the tokens that a translation lacks or doubles, all tokens if it adds one, or None."""
    if is_plain(text, target):
        return None
    tokens = exact_tokens(text)
    target = with_colons(target, text)
    given, written = _folded(text), _folded(target)
    lost = [
        Match(start, end, "number", "form", form)
        for start, end, form in spoken(text, target, language)
    ]
    currencies = [*_CURRENCY.finditer(text)]
    if currencies and not any(each.kind == "amount" for each in numbers(target)):
        names = {name[0] for name in currencies}
        names = {name for name in names if text.count(name) != target.count(name)}
        lost += [Match(*name.span(), "word", "code") for name in currencies if name[0] in names]
    differs = dict[tuple[str, str], bool]()
    for token in tokens:
        kind, part = key = token.kind, given[token.start : token.end]
        if key not in differs:
            counts = [
                side.count(part) if kind == "mark" else len(places(side, part))
                for side in (given, written)
            ]
            differs[key] = kind != "measure" and counts[0] != counts[1]
        lost += [token] * differs[key]
    lost += _lost_measures(text, target)
    signs = _signs(text)
    if text.count("$") > target.count("$") and not _DOLLAR.search(target):
        signs += [Match(place, place + 1, "point") for place in places(text, "$")]
    odd = {text[each.start] for each in signs}
    odd = {sign for sign in odd if text.count(sign) != target.count(sign)}
    gone, spans = [sign for sign in signs if text[sign.start] in odd], _numbers(text)
    beside = {place for sign in gone for place in range(sign.start, sign.end + 1)}
    near = [each for each in spans if not beside.isdisjoint(range(each.start, each.end + 1))]
    difference = number_difference(text, target, language)
    changed = (*[each for each in difference.lacks if each.whole], *difference.adds)
    values = {value for each in changed for value in each.values}
    same = [each for each in numbers(text) if each.whole and not values.isdisjoint(each.values)]
    near += [*gone, *[Match(each.start, each.end, "number") for each in same]]
    near = spans if values and not lost and not near else near
    around = {place: token for token in tokens for place in range(token.start, token.end)}
    lost += [around.get(each.start, each) for each in near]
    if values and not lost:
        lost = list(tokens)
    if not lost and _ODD & set(target) - set(text):
        return all_tokens(text) or words(text, capitals=True)
    return without_overlaps(lost) if lost or values else None


def _lost_measures(text: str, target: str) -> list[Match]:
    """Returns the measures that have another unit, or none, in a translation."""
    said = defaultdict[object, list[str]](list)
    for each in numbers(target):
        said[each.values] += [_folded(target[each.last : each.end + 20]).lstrip(" -")] * each.begins
    lost, left = [], dict[object, int]()
    for each in measures(text):
        unit = _folded(text[each.last : each.until]).lstrip(" -")
        key = each.values, unit
        if key not in left:
            left[key] = sum([_says(words, unit) for words in said[each.values]])
        left[key] -= 1
        if left[key] < 0:
            lost.append(Match(each.start, each.until, "number", "measure"))
    return lost


def _says(given: str, unit: str) -> bool:
    """Returns whether a text begins with a unit or its word: 5 ft, 5 feet, but not 2 l'eau."""
    rest = given.removeprefix(unit)
    if rest != given and not rest[:1].isalpha() and rest[:1] != "'":
        return True
    word = "".join(takewhile(str.isalpha, given))
    # a French byte is an octet
    if unit[1:] in ("b", "o") and word in (f"{unit[0]}b", f"{unit[0]}o"):
        return True
    begin = tuple(_IN_WORDS.get(unit[0], unit[0]).split())
    return len(word) > 2 and word.startswith(begin) and unit != word[:-1]


def lost_numbers(text: str, target: str, language: str = "") -> bool:
    """Returns whether a translation lacks, doubles or adds a number or code."""
    if is_plain(text, target):
        return False
    lost = lost_tokens(text, target, language)
    if lost is None and not number_difference(text, with_colons(target, text), language).lacks:
        return False
    text, target = [
        OTHERWISE.sub("", each) for each in (with_colons(text), with_colons(target, text))
    ]
    difference = number_difference(text, target, language)
    if difference.lacks or difference.adds:
        return True
    given, written = _code(text), _code(target)
    units = {each.values for each in measures(target)}
    values = {value for each in numbers(target) for value in each.values}
    for token in exact_tokens(text) if lost is not None else ():
        word = text[token.start : token.end]
        part = _code(word)
        if token.kind == "mark" or written.count(part) == given.count(part):
            continue
        if is_roman(word):
            is_same = int(roman_value(word)) <= 12 or roman_value(word) in values
        elif token.kind == "measure":  # a unit may be spelled out, but not be another one
            is_same = numbers(word)[0].values not in units
        else:
            own = {value for each in numbers(word) for value in each.values}
            is_same = not any(map(str.isnumeric, word))
            if own:
                is_same = bool(difference.other) and own <= values | difference.other
        if not is_same:
            return True
    return False


def respelled(text: str, target: str) -> str:
    """Returns a translation with the capitals, dashes and primes of its source's codes."""
    tokens = [
        each
        for each in exact_tokens(text)
        if each.kind == "code" or text[each.start : each.end].split()[0].isalnum()
    ]
    tokens += [each for each in _numbers(text) if {*text[each.start : each.end]} & {*"–—−′″"}]
    for written in dict.fromkeys([text[token.start : token.end] for token in tokens]):
        if target.count(written) < text.count(written):
            for at in places(_folded(target), _folded(written)):
                target = target[:at] + written + target[at + len(written) :]
    return target


def kept_spans(text: str) -> list[Span]:
    """Returns the spans that a translation keeps, without numbers."""
    codes = [
        Match(code.start, code.end, "word")
        for code in plain.codes(text)
        if code.kind != "apostrophe"
    ]
    return [(match.start, match.end) for match in without_overlaps([*codes, *exact_tokens(text)])]


def words(text: str, capitals: bool = False) -> list[Match]:
    """Returns the words of a text, or those of two letters and more in `capitals`."""
    return [
        Match(*word.span(), "word")
        for word in WORD.finditer(text)
        if not capitals or (len(word[0]) > 1 and word[0].isupper())
    ]


def without_overlaps(spans: Sequence[Match]) -> list[Match]:
    """Returns the spans sorted, without those that overlap an earlier one of the sequence."""
    result: list[Match] = []
    for span in spans:
        at = bisect_left(result, span.start, key=lambda other: other.start)
        before = result[at - 1].end if at else 0
        after = result[at].start if at < len(result) else span.end
        if before <= span.start < span.end <= after:
            result.insert(at, span)
    return result


def _numbers(text: str) -> list[Match]:
    return [Match(each.start, each.end, "number") for each in numbers(text) if each.whole]


def _signs(text: str) -> list[Match]:
    """Returns the signs of a text. Guillemets in pairs are quotes."""
    paired = "«»" if text.count("«") == text.count("»") else ""
    return [
        Match(*sign.span(), "point")
        for sign in _SIGN_OR_DIGIT.finditer(text)
        if not sign[0].isdigit() and sign[0] not in paired
    ]


def places(text: str, part: str) -> list[int]:
    """Returns where a folded text has a folded token, not within a word. A genitive s may follow."""
    found, at = list[int](), text.find(part)
    while at >= 0:
        end = at + len(part)
        is_word = part[-1].isalnum()
        after = text[end + (is_word and text[end : end + 1] == "s") :][:1]
        is_within = (part[0].isalnum() and text[at - 1 : at].isalnum()) or (
            (is_word or part[-1] in "'\"") and after.isalnum()
        )
        found += [] if is_within else [at]
        at = text.find(part, end)
    return found


def _code(text: str) -> str:
    """Returns a folded text with 7-2 for 7:2, and without spaces before units."""
    return _LOOSE.sub(lambda found: "-" if found[1] else "", _folded(text))


def _folded(text: str) -> str:
    """Returns a text of the same length, which is equal for two spellings of a code."""
    folded = text.translate(_SPELLINGS).lower()
    return folded if len(folded) == len(text) else text
