"""Matches of scanners, and the codes that they become.

A scanner returns the match at a sign of its syntax. The match may begin before the sign (an e-mail
address), but not before the end of the last accepted match."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar, cast
from unicodedata import category

from server.text.spans import Span
from server.text.tagged import ESCAPES, INLINE, Code, Tagged, Word

T = TypeVar("T")
NO_FLAG = re.RegexFlag(0)
MARKS = (
    "".join([chr(code) for code in range(0x300, 0xFE30) if category(chr(code))[0] == "M"])
    + "\u200c\u200d"
)
"""Marks of letters, which `\\w` does not match."""
LATIN = "A-Za-z\u00c0-\u024f"
"""Letters of names in programs."""
Role = Literal["word", "number", "point", "open", "close", "break", "message", "apostrophe"]


class Match(NamedTuple):
    """A part of a text that every translation contains once and unchanged.

    Roles: "word" and "number" stand for a word, a "point" is between words. "open" and "close"
    surround words, and partners have the same `name`. A "break" separates sentences. The `flows` of
    a "message" are translated on their own. An "apostrophe" is doubled or has a backslash (it''s).
    """

    start: int
    end: int
    role: Role
    kind: str = ""
    name: str = ""
    flows: tuple[Span, ...] = ()


class Source:
    """A text that is scanned."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.done = 0
        """End of the last accepted match."""
        self._found: dict[str, Span] = {}
        self._computed: dict[object, object] = {}

    def find(self, part: str, start: int) -> int:
        """Returns the first position of a part at or after `start`, or -1."""
        since, place = self._found.get(part, (start + 1, 0))
        if since > start or (0 <= place < start):
            since, place = start, self.text.find(part, start)
            self._found[part] = since, place
        return place

    def computed(self, function: Callable[[str], T]) -> T:
        """Returns the result of a function of the whole text, which is called once."""
        if function not in self._computed:
            self._computed[function] = function(self.text)
        return cast(T, self._computed[function])


class Opened(Generic[T]):
    """Open elements with a value each. An end closes the last start of its name, and drops the starts
    after that."""

    def __init__(self) -> None:
        self._opened: list[tuple[object, T]] = []
        self._names: dict[object, int] = {}

    def add(self, name: object, value: T) -> None:
        self._opened.append((name, value))
        self._names[name] = self._names.get(name, 0) + 1

    def close(self, name: object) -> T | None:
        """Returns the value of the start with this name, or None."""
        while self._names.get(name):
            other, value = self._opened.pop()
            self._names[other] -= 1
            if other == name:
                return value
        return None


Scanner = Callable[[Source, int], Match | None]


def by_pattern(
    pattern: str, kind: str, role: Role = "word", flags: re.RegexFlag = re.IGNORECASE
) -> Scanner:
    """Returns a scanner that matches a regular expression at its sign."""
    match = re.compile(pattern, flags).match

    def scan(source: Source, at: int) -> Match | None:
        found = match(source.text, at)
        return Match(at, found.end(), role, kind) if found else None

    return scan


def around(before: str, pattern: str, kind: str, role: Role = "word") -> Scanner:
    """Returns a scanner whose match begins up to 100 characters before its sign, with `before`."""
    start, match = re.compile(rf"(?:{before})$"), re.compile(pattern).match

    def scan(source: Source, at: int) -> Match | None:
        begin = start.search(source.text, max(source.done, at - 100), at)
        found = match(source.text, begin.start()) if begin else None
        return Match(*found.span(), role, kind) if found and found.end() > at else None

    return scan


_GLUE = re.compile(r"[^\w\s'\"()\[\]<>{}«»„“”‚‘’]{0,3}| & ")
"""Signs that join placeholders to one word: %d-%d, {0}/{1}, {0} & {1}."""
_LETTER = re.compile(r"[^\W_]")
_VARIABLE, _UNIT = re.compile(r"[^\W\d][\w.-]*"), re.compile(r"[^\W\d_]{1,3}")
_JOINED = re.compile(r"(?<!\w)(?:[#@$%]|\d[\d.,]*)$")
_WORDS: dict[Role, Word] = {"word": "name", "number": "number", "message": "name"}
Raw = Callable[[int, int], str]
Item = tuple[Code, Match | None]


class Codes:
    """The codes of a text in order, each with its match, or None for a code that the text had
    before."""

    def __init__(self, tagged: Tagged, raw: Raw | None) -> None:
        escape = ESCAPES[tagged.escape]
        self._text, self._escape, self._has_raw = tagged.text, tagged.escape, raw is not None
        self._raw = raw or (lambda start, end: escape(tagged.text[start:end]))
        self._old = tagged.codes
        self._pairs = max([code.pair for code in tagged.codes], default=0)
        self.items: list[Item] = []

    def add(self, found: Sequence[Match]) -> None:
        """Adds the codes of matches. A match around whole pairs of the text includes their data."""
        old, starts = self._old, [code.start for code in self._old]
        partners = _partners(old)
        done = 0
        for match in found:
            first = bisect_right(starts, match.start, lo=done)
            last = bisect_left(starts, match.end, lo=first)
            if first < last:
                if match.role not in _WORDS or any(code.splits for code in old[first:last]):
                    continue
                around = {*range(first, last), *partners[first:last]}
                first, last = min(around), max(around) + 1
                is_whole = (
                    done <= first and match.start <= starts[first] and starts[last - 1] <= match.end
                )
                if not is_whole or not set(partners[first:last]) <= set(range(first, last)):
                    continue
            self.items += [(code, None) for code in old[done:first]]
            self.items.append((self._code(match, old[first:last]), match))
            done = last
        self.items += [(code, None) for code in old[done:]]

    def _code(self, match: Match, inside: Sequence[Code]) -> Code:
        role, shown = match.role, self._text[match.start : match.end]
        is_message = role == "message" and not inside
        flows = [(start - match.start, end - match.start) for start, end in match.flows]
        message = Tagged(shown, tuple(self._frames(match)) if self._has_raw else (), self._escape)
        return Code(
            match.start,
            match.end,
            self._data(match.start, match.end, inside),
            word=_WORDS.get(role, ""),
            splits=role == "break",
            message=message if is_message else None,
            flows=tuple(flows) if is_message else (),
            kind=match.kind,
            equiv=shown,
        )

    def _frames(self, message: Match) -> Iterator[Code]:
        done, begin = message.start, message.start
        for start, end in (*message.flows, (message.end, message.end)):
            shown = self._text[done:start]
            yield Code(
                done - begin, start - begin, self._raw(done, start), kind="frame", equiv=shown
            )
            done = end

    def _data(self, start: int, end: int, inside: Sequence[Code]) -> str | None:
        """Returns a part of the text with its codes as written, or None if that is its own syntax."""
        if not self._has_raw and all(code.data is None for code in inside):
            return None
        parts: list[str] = []
        for code in inside:
            written = self._raw(code.start, code.end) if code.data is None else code.data
            parts += self._raw(start, code.start) if start < code.start else "", written
            start = max(start, code.end)
        return "".join((*parts, self._raw(start, end) if start < end else ""))

    def pair(self) -> None:
        """Pairs the starts and ends within the same pair of the text. Without a partner
        `<your-name>` is a word, `<b>` and `**` stand between words."""
        items = self.items
        frames = [Opened[int]()]
        for number, (code, match) in enumerate(items):
            if match is None and code.role == "sc":
                frames.append(Opened[int]())
            elif match is None and code.role == "ec" and len(frames) > 1:
                frames.pop()
            elif match is not None and match.role in ("open", "close"):
                name = f"{match.kind} {match.name}"
                ends = match.role == "close" or match.kind == "strong"
                if ends and (partner := frames[-1].close(name)) is not None:
                    self._pairs += 1
                    start, opening = items[partner]
                    items[partner] = start._replace(role="sc", pair=self._pairs), opening
                    items[number] = code._replace(role="ec", pair=self._pairs), match
                elif match.role == "open":
                    frames[-1].add(name, number)
        self.items = [item for item in map(self._alone, items) if item]

    def _alone(self, item: Item) -> Item | None:
        """Returns an item, as a word if it lacks its partner, or None if it is text without it: `*`,
        `[sic]`, the `**` of `f**k`."""
        code, match = item
        if match is None or code.pair or match.role not in ("open", "close"):
            return item
        around = self._text[code.start - 1 : code.start] + self._text[code.end : code.end + 1]
        is_name = match.kind == "bbcode" and "=" not in code.equiv
        is_inner = match.kind == "strong" and len(around) == 2 and around.isalpha()
        if is_name or is_inner or match.kind in ("emphasis", "text command", "org link", "quote"):
            return None
        is_word = (
            match.role == "open" and match.kind in ("tag", "template") and match.name.isidentifier()
        )
        return (code._replace(word="name"), match) if is_word and match.name not in INLINE else item

    def words(self) -> list[Code]:
        """Returns the codes. Words joined by signs are one code, as are a pair around words only
        (`<1>{{count}}</1>`), and a pair around a variable or unit with the sign or amount before it
        (`#<i>tag</i>`)."""
        done: list[Item] = []
        opened: dict[int, tuple[int, int, int, int]] = {}
        """For each open pair, the number of its first code, and the counts before it."""
        letters = words = others = 0
        for given in self.items:
            item, code = given, given[0]
            if done and _LETTER.search(self._text, done[-1][0].end, code.start):
                letters += 1
            if code.role == "sc":
                opened[code.pair] = len(done), letters, words, others
            elif code.pair in opened:
                first, *before = opened.pop(code.pair)
                is_word = before[0] == letters and before[1] < words and before[2] == others
                joined = self._joined_before(done, code) if len(done) == first + 1 else 0
                if is_word or joined:
                    letters, _, others = before
                    item = self._folded([*[each for each, _ in done[first:]], code], joined)
                    del done[first:]
            words += item[1] is not None and bool(item[0].word)
            others += item[0].splits or item[0].kind == "message"
            self._append(done, item)
        return [code for code, _ in done]

    def _append(self, done: list[Item], item: Item) -> None:
        code, match = item
        last, before = done[-1] if done else item
        are_words = (
            match and before and code.word and last.word and code.message is None is last.message
        )
        if done and are_words and _GLUE.fullmatch(self._text, last.end, code.start):
            data = self._data(last.start, code.end, [last, code])
            shown = self._text[last.start : code.end]
            item = last._replace(end=code.end, data=data, equiv=shown), before
            done.pop()
        done.append(item)

    def _joined_before(self, done: Sequence[Item], end: Code) -> int:
        """Returns the length of the sign of a variable, or of the amount of a unit, before a pair."""
        text, start = self._text, done[-1][0]
        low = done[-2][0].end if len(done) > 1 else 0
        found = _JOINED.search(text, max(low, start.start - 20), start.start)
        if found is None or text[end.end : end.end + 1].isalnum():
            return 0
        within = _VARIABLE if found[0] in "#@$%" else _UNIT
        return len(found[0]) if within.fullmatch(text, start.end, end.start) else 0

    def _folded(self, inside: Sequence[Code], before: int) -> Item:
        start, end = inside[0].start - before, inside[-1].end
        kind = next((code.kind for code in inside if code.word), "variable")
        data = self._data(start, end, inside)
        code = Code(start, end, data, word="name", kind=kind, equiv=self._text[start:end])
        return code, Match(start, end, "word", kind)


def _partners(codes: Sequence[Code]) -> list[int]:
    partners, opened = list(range(len(codes))), dict[int, int]()
    for number, code in enumerate(codes):
        if code.pair:
            other = opened.setdefault(code.pair, number)
            partners[other], partners[number] = number, other
    return partners
