"""Translates generated texts as a hostile model would, without an engine, and checks what is
written."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import pairwise
from types import ModuleType
from typing import Any

from model.symbols import SYMBOLS as SYMBOLS_OF_MODELS
from server.text import finishing
from server.text.finishing import Finished
from server.text.glossary import Entry, TermIndex
from server.text.projection import Link
from server.text.reading import APOSTROPHE, Reading, masked
from server.text.syntax.markup import VOID
from server.text.tagged import ESCAPES, Code, Tagged
from server.translation import finish as finish_pass
from server.translation.catalog import ModelCatalog
from server.translation.context import COPIED, Draft
from server.translation.preparation import Segment, SegmentedText, prepare
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import fake_model
from tests.support.engine.hostile_engine import NAMED, SYMBOLS, hostile_tokens
from tests.support.texts.tagged_texts import TaggedText

GLOSSARY = TermIndex(
    [
        Entry("red house", "chat"),
        Entry("garden", "猫"),
        Entry("cat", "Haus {zq}"),
        Entry("Anna", "Anna"),
    ]
)
KEPT = ("NASA", "old", "two dogs", "sleeps at")
CATALOGS = {
    tokenizer: ModelCatalog(
        [replace(fake_model(), tokenizer=tokenizer, formality=frozenset({"de"}))]
    )
    for tokenizer in (SYMBOLS, NAMED)
}
FOREIGN = re.compile("|".join([*SYMBOLS_OF_MODELS, "[\u2047\ufffd]"]))
WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a translation breaks: `given` is what the source has, and `written` what the
    translation has."""

    rule: str
    given: object
    written: object


class HostileTranslation:
    """Translates one text in several ways, and collects the faults. It uses `finish` of this
    module."""

    def __init__(
        self, text: TaggedText, seed: int, alternatives: int = 1, module: ModuleType = finishing
    ) -> None:
        self._chance = random.Random(seed)
        self._tokenizer = self._chance.choice((SYMBOLS, NAMED))
        self.text, self._alternatives, self._finish = text, alternatives, module.finish
        self.faults: list[Fault] = []

    def run(self) -> list[Fault]:
        """Returns the faults of the text."""
        fields: dict[str, Any] = {"format": self.text.format}
        if self._chance.random() < 0.2:
            fields["glossary"] = GLOSSARY
        if self._chance.random() < 0.2:
            fields["do_not_translate"] = KEPT
        request = TranslationRequest(texts=(self.text.text,), source="en", target="de", **fields)
        [prepared] = prepare(request, CATALOGS[self._tokenizer], None)  # type: ignore[arg-type]  # detects no language
        assert prepared.segmented is not None
        for _ in range(self._alternatives):
            written = self._translated(prepared.segmented)
            self.faults += whole_faults(prepared.segmented.tagged, written)
            self.faults += written_faults(self.text, prepared.segmented.tagged, written.write())
        return self.faults

    def _translated(self, segmented: SegmentedText) -> Tagged:
        return segmented.join([self._segment(segment) for segment in segmented.segments])

    def _segment(self, segment: Segment) -> Finished:
        messages = iter(segment.messages)
        codes = []
        for code in segment.tagged.codes:
            if code.flows:
                message = self._translated(next(messages))
                code = code._replace(equiv=message.text, data=None, message=message)
            codes.append(code)
        tagged = segment.tagged._replace(codes=tuple(codes))
        reading = segment.reading
        target = self._target(segment.ids)
        if reading.missing(target) and self._tokenizer is NAMED:
            reading = masked(tagged, {}, reading.capitals, reading.apart)
            target = self._target(self._tokenizer.encode_ids(reading.text))
        if finish_pass.is_blank(reading, target):
            bare = replace(segment, tagged=tagged, messages=())
            finished = result(finish_pass._copied(None, Draft(bare, COPIED))).finished[0]  # type: ignore[arg-type]
            self.faults += segment_faults(tagged, finished)
            return finished
        finished = self._finish(
            tagged,
            reading,
            target,
            self._links(reading.text, target),
            str.upper if reading.capitals else str,
        )
        self.faults += [
            *segment_faults(tagged, finished),
            *text_faults(tagged, reading, target, finished),
        ]
        self.faults += containment_faults(tagged, reading, finished)
        if not finished.tagged.bare.strip():
            self.faults.append(Fault("empty", segment.text, finished.text))
        return finished

    def _target(self, ids: Sequence[int]) -> str:
        return (
            self._tokenizer.decode(hostile_tokens(self._chance, self._tokenizer, ids))
            if ids
            else ""
        )

    def _links(self, source: str, target: str) -> list[Link]:
        """Returns links between words at random."""
        sources, targets = [
            [word.span() for word in WORDS.finditer(text)] for text in (source, target)
        ]
        if not sources or not targets:
            return []
        return [
            (self._chance.choice(sources), self._chance.choice(targets))
            for _ in range(self._chance.randint(0, 8))
        ]


def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of a coroutine that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("It waits.")


def segment_faults(source: Tagged, finished: Finished) -> Iterator[Fault]:
    """Yields where the codes of a sentence are not placed once, in order, without overlaps."""
    numbers = [number for number, _, _ in finished.places]
    wanted = [
        number
        for number, code in enumerate(source.codes)
        if code.kind != APOSTROPHE or number in numbers
    ]
    if sorted(numbers) != wanted:
        yield Fault("once", wanted, numbers)
    done = 0
    for number, start, end in finished.places:
        if not done <= start <= end <= len(finished.text):
            yield Fault("atomic", done, (number, start, end))
        elif finished.text[start:end] != source.codes[number].equiv:
            yield Fault("atomic", source.codes[number].equiv, finished.text[start:end])
        done = end
    yield from nesting_faults([source.codes[number] for number in numbers])


def nesting_faults(written: Sequence[Code]) -> Iterator[Fault]:
    """Yields where pairs are not nested, or begin after their end. The ends of pairs that began
    before come first."""
    opened: list[int] = []
    begun = {code.pair for code in written if code.role == "sc"}
    for code in written:
        if code.role == "sc":
            opened.append(code.pair)
        elif code.role == "ec" and opened and opened[-1] == code.pair:
            opened.pop()
        elif code.role == "ec" and (opened or code.pair in begun):
            yield Fault(
                "ordered" if code.pair in begun and code.pair not in opened else "nested",
                opened,
                code,
            )


def containment_faults(source: Tagged, reading: Reading, finished: Finished) -> Iterator[Fault]:
    """Yields codes that are in other pairs than in the source, but for pairs just before their own,
    with nothing between. A code that the model read may be anywhere."""
    read = {item.number for item in reading.stand_ins}
    given = containers(list(enumerate(source.codes)))
    found = containers([(number, source.codes[number]) for number, _, _ in finished.places])
    before = neighbours(source)
    for number in found:
        own = {source.codes[number].pair} - {0} | given[number]
        allowed = frozenset[int]().union(*[before.get(pair, ()) for pair in own])
        if number not in read and not given[number] <= found[number] <= given[number] | allowed:
            yield Fault("nested", (source.codes[number], given[number]), found[number])


def neighbours(source: Tagged) -> dict[int, frozenset[int]]:
    """Returns the pairs that end where each pair begins, and those that end where these begin."""
    before: dict[int, frozenset[int]] = {}
    for last, code in pairwise(source.codes):
        if (last.role, code.role) == ("ec", "sc") and not source.text[
            last.end : code.start
        ].strip():
            before[code.pair] = before.get(last.pair, frozenset()) | {last.pair}
    return before


def containers(codes: Sequence[tuple[int, Code]]) -> dict[int, frozenset[int]]:
    """Returns the pairs around each of some codes, which have numbers. Pairs that go on in other
    sentences do not count."""
    whole = {code.pair for _, code in codes if code.role == "sc"} & {
        code.pair for _, code in codes if code.role == "ec"
    }
    opened: frozenset[int] = frozenset()
    found: dict[int, frozenset[int]] = {}
    for number, code in codes:
        if code.role == "ec":
            opened -= {code.pair}
        found[number] = opened
        if code.role == "sc" and code.pair in whole:
            opened |= {code.pair}
    return found


def text_faults(
    source: Tagged, reading: Reading, target: str, finished: Finished
) -> Iterator[Fault]:
    """Yields where the text between codes is not what the model wrote, without stand-ins and
    without symbols that it did not read. Spaces, and the s of a genitive after a name, are not
    compared."""
    parts, done = [], 0
    for number, start, end in finished.places:
        if source.codes[number].kind != APOSTROPHE:
            parts.append(finished.text[done:start])
            done = max(done, end)
    written = "".join("".join((*parts, finished.text[done:])).split())
    stand_ins = {item.word for item in reading.stand_ins}
    kept = reading.pattern().sub(" ", target) if stand_ins else target
    kept = FOREIGN.sub(lambda found: found[0] if found[0] in reading.text else " ", kept)
    if reading.apostrophe:
        kept = kept.replace("'", reading.apostrophe)
    expected = "".join((kept.upper() if reading.capitals else kept).split())
    if written != expected and not (
        _is_within(written, expected) and len(expected) - len(written) <= len(stand_ins) * 4
    ):
        yield Fault("text", expected, written)


def _is_within(part: str, whole: str) -> bool:
    """Returns whether only letters s were taken out of a text."""
    left = iter(part)
    following = next(left, "")
    for character in whole:
        if character == following:
            following = next(left, "")
        elif character.lower() != "s":
            return False
    return not following


def whole_faults(source: Tagged, written: Tagged) -> Iterator[Fault]:
    """Yields where the markup of a text is not in its translation once, or pairs across sentences
    are not nested."""
    given, found = [
        Counter([(code.role, code.pair, code.data) for code in tagged.codes if not code.equiv])
        for tagged in (source, written)
    ]
    if given != found:
        yield Fault("once", dict(given - found), dict(found - given))
    if not list(nesting_faults(source.codes)):
        yield from nesting_faults(written.codes)


def written_faults(text: TaggedText, source: Tagged, written: str) -> Iterator[Fault]:
    """Yields what is wrong with the text that is written: a code that it lacks, tags that are not
    balanced, XML that does not parse."""
    escape = ESCAPES[source.escape]
    data = [
        escape(code.equiv) if code.data is None else code.data
        for code in source.codes
        if code.message is None and code.kind != APOSTROPHE
    ]
    frames = [
        frame
        for code in source.codes
        if code.message
        for frame in _frames(code)
        if frame in text.text
    ]
    for part, times in Counter([*data, *frames]).items():
        if part not in text.text:
            yield Fault("bytes", text.text, part)
        if written.count(part) < times:
            yield Fault("written", part, written)
    if text.format == "html":
        given, found = _html(text.text), _html(written)
        if Counter(given) != Counter(found):
            yield Fault(
                "markup",
                dict(Counter(given) - Counter(found)),
                dict(Counter(found) - Counter(given)),
            )
        elif _is_balanced(given) and not _is_balanced(found):
            yield Fault("balanced", given, found)
    elif (
        text.format == "xml"
        and (elements := _xml(text.text)) is not None
        and elements != _xml(written)
    ):
        yield Fault("xml", text.text, written)


def _frames(message: Code) -> list[str]:
    """Returns what is around the arms of a message."""
    frames, done = [], 0
    for start, end in (*message.flows, (len(message.equiv),) * 2):
        frames.append(message.equiv[done:start])
        done = end
    return frames


class _Markup(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        # as the standard says; the library refuses unknown ones
        return self.parse_bogus_comment(i, report)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}-->")


def _html(text: str) -> list[str]:
    """Returns the markup of HTML as the parser of the standard library reads it."""
    parser = _Markup()
    parser.feed(text)
    parser.close()
    return parser.found


def _is_balanced(markup: Sequence[str]) -> bool:
    opened: list[str] = []
    for tag in markup:
        name = re.match(r"</?([^\s/>]+)", tag)
        if name is None or tag.startswith("<!") or name[1].lower() in VOID or tag.endswith("/>"):
            continue
        if not tag.startswith("</"):
            opened.append(name[1].lower())
        elif not opened or opened.pop() != name[1].lower():
            return False
    return not opened


def _xml(text: str) -> Counter[tuple[str, str]] | None:
    """Returns the elements of XML, or None if it is not well-formed."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  # generated here
    except ElementTree.ParseError:
        return None
    return Counter([(element.tag, str(sorted(element.attrib.items()))) for element in root.iter()])
