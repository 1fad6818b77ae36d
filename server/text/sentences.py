"""The sentences of a text, each with its codes and the terms of a glossary."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from model.tokenizer import Tokenizer
from server.text.glossary import TermIndex, TermMatch, form, is_start
from server.text.languages import primary_subtag
from server.text.segmentation import BREAKS, Split, split_long_sentence, split_sentences
from server.text.spans import Span, blanked, span_around
from server.text.tagged import Code, Tagged

_ONE_GENDER = {
    "de": re.compile(
        r"(?<!\*)\b[A-ZÄÖÜ][a-zß-ü-]+([*:_·])in(?:nen)?\b|e([*:])[mnr]\b|\b[Ee]in(\*)e\b"
    ),
    "fr": re.compile(r"[^\W\d_]{2}((?:\(e\)|[·•](?!s\b)[a-zè]{1,4}?)(?:[·•](?=s\b)|(?=s?(?!\w))))"),
}
"""The parts to remove from a word for both genders: Schüler*innen, ami·e·s."""


class Sentence(NamedTuple):
    """A sentence at `start` of its text, or a part at `start` of its sentence, with its terms of the
    glossary."""

    start: int
    tagged: Tagged
    terms: tuple[TermMatch, ...] = ()

    def cut(self, starts: Sequence[int], limit: int) -> list[Sentence]:
        """Returns the parts of a sentence of more than `limit` tokens. Tokens begin at `starts`."""
        spans = split_long_sentence(
            self.tagged.text, starts, limit, _spans(self.tagged, self.terms)
        )
        return [self.part(start, end) for start, end in spans]

    def part(self, start: int, end: int) -> Sentence:
        """Returns the part [start, end), with its codes and the terms that begin in it."""
        first, last = [bisect_left(self.terms, at, key=attrgetter("start")) for at in (start, end)]
        terms = self.terms[first:last]
        moved = [term._replace(start=term.start - start, end=term.end - start) for term in terms]
        return Sentence(start, self.tagged.cut(start, end), tuple(moved))


def split(
    tagged: Tagged, language: str, split: Split, glossary: TermIndex | None, tokenizer: Tokenizer
) -> list[Sentence]:
    """Returns the sentences of a text. No sentence begins or ends within a code or a term, or
    contains a splitting code. A term that the `tokenizer` cannot write becomes a code."""
    tagged = _of_one_gender(tagged, primary_subtag(language))
    terms: list[TermMatch] = []
    if glossary is not None:
        tagged, terms = _with_terms(tagged, language, glossary, split == "all", tokenizer)
    text, is_ordinary = tagged.text, partial(_is_ordinary, tokenizer)
    raised = [code[:2] for code in tagged.codes if code.kind == "note" and code.equiv.isdigit()]
    text = blanked(text, raised, ")")  # which may follow the mark at the end of a sentence: twice.²
    spans: list[Span] = []
    done = 0
    for start, end in (*[code[:2] for code in tagged.codes if code.splits], (len(text), 0)):
        if start > done:
            found = split_sentences(text[done:start], language, split, is_ordinary)
            spans += [(first + done, last + done) for first, last in found]
        done = end
    whole = Sentence(0, tagged, tuple(terms))
    return [whole.part(*span) for span in _joined_within(spans, _spans(tagged, terms))]


def _of_one_gender(tagged: Tagged, language: str) -> Tagged:
    """Returns a text of the same length in which words for both genders have one."""
    pattern = _ONE_GENDER.get(language)
    if pattern is None or not pattern.search(tagged.text):
        return tagged
    taken = {at for code in tagged.codes for at in range(code.start, code.end)}
    edits = [found.span(found.lastindex or 0) for found in pattern.finditer(tagged.text)]
    free = [edit for edit in edits if taken.isdisjoint(range(*edit))]
    return tagged._replace(text=blanked(tagged.text, free, "\u00ad"))


def _is_ordinary(tokenizer: Tokenizer, word: str) -> bool:
    """Returns whether a word with a capital has fewer tokens in small letters, so is not a name."""
    return len(tokenizer.encode_target(word.lower())) < len(tokenizer.encode_target(word))


def _with_terms(
    tagged: Tagged, language: str, glossary: TermIndex, lines: bool, tokenizer: Tokenizer
) -> tuple[Tagged, list[TermMatch]]:
    """Returns a text and its terms in order. With `lines` a term contains no line end. A term that
    the model cannot write, or whose translation contains its codes, becomes a code."""
    text = tagged.text
    visible = [code for code in tagged.codes if code.start < code.end]
    starts = [code.start for code in visible]
    terms: list[TermMatch] = []
    replaced: list[Code] = []
    cuts = [code.start for code in tagged.codes if code.splits]
    cuts += [line_end.start() for line_end in BREAKS.finditer(text)] if lines else []
    for match in glossary.find(text, [code[:2] for code in visible], sorted(cuts), language):
        inside = visible[bisect_left(starts, match.start) : bisect_left(starts, match.end)]
        target = match.entry.target
        if not inside and is_written(target, tokenizer):
            terms.append(match)
        elif all(_is_kept(code, tagged, match) for code in inside):
            written = form(match, text, is_start(text, match.start))
            replaced.append(Code(match.start, match.end, word="name", kind="term", equiv=written))
    return with_codes(tagged, replaced) if replaced else tagged, terms


def with_codes(tagged: Tagged, further: Sequence[Code]) -> Tagged:
    """Returns a text with further sorted codes, which replace the codes within them. Whole pairs
    within a code that a translation keeps become part of it; other markup follows it."""
    codes = tagged.codes
    result: list[Code] = []
    done = 0
    for new in further:
        code = new
        first = bisect_right(codes, code.start, lo=done, key=attrgetter("end"))
        last = bisect_left(codes, code.end, lo=first, key=attrgetter("start"))
        within = codes[first:last]
        pairs = {each.pair for each in within} - {0}
        low, high = first, last
        while low > done and codes[low - 1].start == code.start and codes[low - 1].pair in pairs:
            low -= 1
        while high < len(codes) and codes[high].end == code.end and codes[high].pair in pairs:
            high += 1
        sides = sorted([each.pair for each in codes[low:high] if each.pair])
        is_markup = bool(within) and not any(
            each.splits or each.end > each.start for each in within
        )
        if (
            is_markup
            and code.equiv == tagged.text[code.start : code.end]
            and sides[::2] == sides[1::2]
        ):
            first, last = low, high
            inside = [each.moved(-code.start) for each in codes[low:high]]
            code = code._replace(message=Tagged(code.equiv, tuple(inside), tagged.escape))
            within = ()
        late = [
            each._replace(start=code.end, end=code.end) for each in within if each.start == each.end
        ]
        result += [*codes[done:first], code, *late]
        done = last
    return tagged._replace(codes=(*result, *codes[done:]))


def is_written(term: str, tokenizer: Tokenizer) -> bool:
    """Returns whether a vocabulary can write a term."""
    tokens = tokenizer.encode_target(term)
    return tokenizer.decode(tokens) == term and not any(
        tokenizer.piece(token).startswith("<0x") for token in tokens
    )


def _is_kept(code: Code, tagged: Tagged, match: TermMatch) -> bool:
    shown = tagged.text[code.start : code.end]
    return (
        bool(code.word)
        and tagged.is_text(code)
        and match.entry.target.count(shown) == match.entry.source.count(shown)
    )


def _spans(tagged: Tagged, terms: Sequence[TermMatch]) -> list[Span]:
    codes = [code[:2] for code in tagged.codes if code.start < code.end and not code.splits]
    return sorted([*codes, *[(term.start, term.end) for term in terms]]) if terms else codes


def _joined_within(sentences: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for first, last in sentences:
        start, end = span_around(first, spans)[0], span_around(last, spans)[1]
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
