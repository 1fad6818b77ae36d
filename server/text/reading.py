"""The text that a model reads of a sentence: codes that are words have stand-ins, other codes are
left out.

Stand-ins are the symbols that the model was trained to copy (`model.symbols`), otherwise names and
numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import unescape
from typing import NamedTuple
from unicodedata import category

from model.symbols import PLACEHOLDERS, SYMBOLS
from model.tokenizer import Tokenizer
from server.kept import kept
from server.text.glossary import TermMatch
from server.text.languages import has_letters, primary_subtag
from server.text.segmentation import LINE_ENDS
from server.text.spans import LETTERS, WORD, Span, blanked, grown
from server.text.tagged import AND, PICTURES, RAISED, Code, Tagged

NAMES = ("Tom", "Linux", "Boston", "Google", "David")
NUMBERS = ("27", "42", "36", "58", "63")
SYMBOL = re.compile("|".join([*SYMBOLS, "\u2047", "\ufffd"]))
"""What a model may write that is not text: its symbols, an unknown piece, invalid bytes."""
LEAST_CAPITALS = 4
"""Letters of a single word in capitals that may be an ordinary word: CANCEL."""
LONGEST_WORD = 50
_MARKS = frozenset(".,;:!?")
CONJUNCTIONS = {"en": "and", "de": "und", "fr": "et", "es": "y", "it": "e", "pt": "e"}
"""What a model reads for "&"."""
CODE_SPAN = "code span"
"""Kind of a code that may touch other words. The model reads spaces around it."""
APOSTROPHE = "apostrophe"
"""Kind of a code that is read as an apostrophe, and written for those of the translation."""
_UNITS = frozenset(
    "d h m s x k K M G px ms min km cm mm kg kB KB MB GB TB kiB KiB MiB GiB TiB".split()
)


class StandIn(NamedTuple):
    """A word at `span` of what the model reads. It stands for the code `number`, which a reader sees
    as `shown`."""

    word: str
    number: int
    span: Span
    shown: str


class Reading(NamedTuple):
    """The text that a model reads, which is empty if there is nothing to translate. `places` has its
    span for each code. With `capitals` it is in sentence case, and its translation in capitals. It
    has a space that the sentence lacks at the codes `apart`."""

    text: str = ""
    capitals: bool = False
    stand_ins: tuple[StandIn, ...] = ()
    places: tuple[Span, ...] = ()
    apostrophe: str = ""
    apart: frozenset[int] = frozenset()

    def pattern(self) -> re.Pattern[str]:
        return stand_in_pattern(frozenset([item.word for item in self.stand_ins]))

    def without_stand_ins(self, text: str) -> str:
        """Returns the text, or its translation, with line ends in place of the stand-ins."""
        return self.pattern().sub("\n", text) if self.stand_ins else text

    def with_originals(self, target: str) -> str:
        """Returns a translation, or its beginning, with what a reader sees of the codes."""
        originals = self.originals
        return (
            self.pattern().sub(lambda found: originals[found[0]], target) if originals else target
        )

    def missing(self, target: str) -> bool:
        return bool(self.stand_ins) and not self._words <= self._counts(target)

    def is_complete(self, target: str) -> bool:
        """Returns whether a translation has every stand-in as often as the text, and no other
        symbol."""
        if not all(map(self.text.__contains__, SYMBOL.findall(target))):
            return False
        return not self.stand_ins or self._words == self._counts(target)

    @property
    def originals(self) -> dict[str, str]:
        return {item.word: item.shown for item in self.stand_ins}

    @property
    def _words(self) -> Counter[str]:
        return Counter([item.word for item in self.stand_ins])

    def _counts(self, target: str) -> Counter[str]:
        return Counter(self.pattern().findall(target))


def read(
    sentence: Tagged, terms: Sequence[TermMatch], tokenizer: Tokenizer, language: str
) -> Reading:
    """Returns what a model with this vocabulary reads. `terms` are the sorted terms of a glossary."""
    text = sentence.text
    spans = [code[:2] for code in sentence.codes if code.end > code.start]
    spans += [(term.start, term.end) for term in terms]
    plain = blanked(text, spans)
    if not has_letters(plain, language):
        return Reading()
    words = stand_ins_of(tokenizer).choose(sentence) if sentence.codes else {}
    if conjunction := CONJUNCTIONS.get(primary_subtag(language)):
        words |= {n: conjunction for n, code in enumerate(sentence.codes) if code.kind == AND}
    bare = (masked(sentence, {}).text if sentence.codes else text) if plain == plain.upper() else ""
    return masked(sentence, words, is_all_caps(bare, tokenizer), _apart(sentence, tokenizer))


def _apart(sentence: Tagged, tokenizer: Tokenizer) -> frozenset[int]:
    """Returns the codes at which the model reads a space that the text lacks: between elements with
    words (<b>One</b><i>Two</i>), at the end of one after a mark (<b>Note:</b>The), at a picture, a
    tie, the reference to a space. Elements in one word, which has fewer pieces as a whole, have
    none."""
    codes, text = sentence.codes, sentence.text
    done = -1
    for code in codes:
        if code.role == "ph" or code.start <= done or text[code.start - 1 : code.start] in _MARKS:
            break
        done = code.end
    else:
        return frozenset()
    apart = [
        n for n, code in enumerate(codes) if code.kind == "tie" or unescape(code.equiv).isspace()
    ]
    number = 0
    while number < len(codes):
        first, joins = number, []
        sign = text[codes[first].start - 1 : codes[first].start]
        follows = is_last = is_icon = False
        while not is_last:
            code = codes[number]
            is_last = number + 1 == len(codes) or codes[number + 1].start > code.end
            is_marked = sign in _MARKS
            joins_next = code.role == "ec" and is_last and is_marked  # the text goes on
            joins_last = code.role == "sc" and (follows or (is_marked and number == first))
            if code.kind in PICTURES or ((joins_next or joins_last) and code.kind not in RAISED):
                joins.append(number)
                is_icon |= follows and category(sign or " ") in ("Sm", "So")
            follows = code.role == "ec" or (follows and code.role == "ph")
            number += 1
        if joins:
            start, end = codes[first].start, code.end
            low, high = grown(
                text, start, end, _is_joined, start - LONGEST_WORD, end + LONGEST_WORD
            )
            if is_icon or _are_words(sign, text[low:start], text[end:high], tokenizer):
                apart += joins
    return frozenset(apart)


def _is_joined(character: str) -> bool:
    return character.isalnum() or character in "_-"


def _are_words(sign: str, left: str, right: str, tokenizer: Tokenizer) -> bool:
    if not right[:1].isalpha() or not left[-1:].isalpha():
        return (
            sign in _MARKS
            and len(right) > 1
            and (right[0].isupper() or (right[0].isalpha() and sign in ",;"))
        )
    if len(left) > 1 and left[-1].islower() and right[0].isupper():
        return True
    whole, *parts = [len(tokenizer.encode_target(each)) for each in (left + right, left, right)]
    return sum(parts) <= whole and len(left + right) > 2


def masked(
    sentence: Tagged,
    words: dict[int, str],
    capitals: bool = False,
    apart: frozenset[int] = frozenset(),
) -> Reading:
    """Returns the reading with stand-ins `words` by the numbers of codes. Other codes are left out with
    the space before them, or after them at the start of the text."""
    text = text_to_read(sentence.text, capitals)
    if not sentence.codes:
        return Reading(text, capitals)
    if len(text) != len(sentence.text):
        text = sentence.text.translate(LINE_ENDS)
    parts: list[str] = []
    places: list[Span] = []
    stand_ins: list[StandIn] = []
    done = length = 0
    apostrophe = ""

    def copy(end: int) -> None:
        nonlocal done, length
        if end > done:
            parts.append(text[done:end])
            length += end - done
            done = end

    def add(part: str, needed: bool = True) -> None:
        nonlocal length
        if needed:
            parts.append(part)
            length += len(part)

    for number, code in enumerate(sentence.codes):
        word = words.get(number, "'" if code.kind == APOSTROPHE else "")
        if word:
            copy(code.start)
            add(" ", code.kind == CODE_SPAN and text[code.start - 1 : code.start].isalpha())
            add(word)
            places.append((length - len(word), length))
            done = max(done, code.end)
            add(" ", code.kind == CODE_SPAN and text[code.end : code.end + 2].isalpha())
            if code.kind == APOSTROPHE:
                apostrophe = code.equiv
            elif code.kind != AND:
                stand_ins.append(StandIn(word, number, places[-1], code.equiv))
            continue
        joined = code.role != "ph" or text[code.end : code.end + 1].isalnum()
        copy(code.start if joined else done + len(text[done : code.start].rstrip()))
        add(" ", number in apart and code.role != "ec")
        done = max(done, code.end)
        if not length and code.role == "ph":
            done += len(text[done:]) - len(text[done:].lstrip())
        places.append((length, length))
        add(" ", number in apart and code.role == "ec")
    copy(len(text))
    return Reading("".join(parts), capitals, tuple(stand_ins), tuple(places), apostrophe, apart)


def widened(sentence: Tagged, symbols: bool) -> Tagged:
    """Returns the sentence with the letters that touch a code for a word as part of it, because
    models do not copy "Tompx" for `{count}px`. An s after a code stays outside, but not in {m}m
    {s}s. `symbols` are copied with letters around them, unless these are a unit."""
    text, codes = sentence.text, sentence.codes
    result: list[Code] = []
    for i, code in enumerate(codes):
        start, end = code.start, code.end
        if (
            code.word
            and sentence.is_text(code)
            and code.equiv == text[start:end]
            and code.message is None
        ):
            low = codes[i - 1].end if i else 0
            high = codes[i + 1].start if i + 1 < len(codes) else len(text)
            low = start if symbols else max(low, result[-1].end if result else 0)
            start, last = grown(text, start, end, str.isalnum if symbols else _is_joined, low, high)
            after = text[end:last]
            is_plural = after == "s" and not (result and result[-1].end > codes[i - 1].end)
            end = end if is_plural or (symbols and after not in _UNITS) else last
            if code.kind == CODE_SPAN:  # a word is no part of it
                start = code.start if text[code.start - 2 : code.start].isalpha() else start
                end = code.end if text[code.end : code.end + 2].isalpha() else end
            if (start, end) != (code.start, code.end):
                result.append(code._replace(start=start, end=end, data=None, equiv=text[start:end]))
                continue
        result.append(code)
    return sentence if result == list(codes) else sentence._replace(codes=tuple(result))


def is_all_caps(text: str, tokenizer: Tokenizer) -> bool:
    """Returns whether a text is a phrase in capitals, and not one or two abbreviations. A single word
    is a phrase if the vocabulary has it in small letters, and not in capitals (NATO)."""
    if not text.isupper():
        return False
    words = [
        word
        for word in WORD.findall(text)
        if any(len(letters) > 1 for letters in LETTERS.findall(word))
    ]
    if len(words) == 1:
        is_long = len(words[0]) >= LEAST_CAPITALS
        return is_long and tokenizer.is_piece(words[0].lower()) and not tokenizer.is_piece(words[0])
    return len(words) >= 2 and sum(map(len, words)) >= 6


def text_to_read(text: str, capitals: bool) -> str:
    """Returns a text without line ends, in sentence case if it is in `capitals`."""
    if capitals:
        text = WORD.sub(
            lambda word: "I" if word[0] == "i" else word[0], text[:1] + text[1:].lower()
        )
    return text if text.isprintable() else text.translate(LINE_ENDS)


class StandIns(NamedTuple):
    """The stand-ins of one model. Codes for which there are none are left out."""

    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def choose(self, sentence: Tagged) -> dict[int, str]:
        """Returns stand-ins by the numbers of codes. Equal codes share one; codes beyond the number
        of stand-ins have none."""
        text = sentence.text
        names = [word for word in (self.symbols or self.names) if word not in text][::-1]
        numbers = (
            names if self.symbols else [word for word in self.numbers if word not in text][::-1]
        )
        chosen: dict[str, str] = {}
        words: dict[int, str] = {}
        for number, code in enumerate(sentence.codes):
            if not code.word:
                continue
            shown = text[code.start : code.end] or code.data or ""
            left = numbers if code.word == "number" else names
            if shown not in chosen and left:
                chosen[shown] = left.pop()
            if shown in chosen:
                words[number] = chosen[shown]
        return words


@kept(64)
def stand_ins_of(vocabulary: Tokenizer) -> StandIns:
    symbols = tuple([symbol for symbol in PLACEHOLDERS if vocabulary.is_piece(symbol)])
    if symbols:
        return StandIns(symbols)
    numbers = NUMBERS if all(vocabulary.is_piece(digit) for digit in "0123456789") else ()
    return StandIns((), tuple([name for name in NAMES if vocabulary.is_piece(name)]), numbers)


@kept(256)
def stand_in_pattern(words: frozenset[str]) -> re.Pattern[str]:
    """Returns a pattern that matches the stand-ins in a translation, without the s of a genitive."""
    parts = []
    for word in sorted(words, key=len, reverse=True):
        if word[0].isdigit():
            parts.append(rf"(?<![\w.,:-]){word}(?![\w:-]|[.,]\d)")
        elif word[0].isalpha():
            parts.append(rf"(?<!\w){word}(?=s?(?!\w))")
        else:
            parts.append(re.escape(word))
    return re.compile("|".join(parts) or r"(?!)")
