"""The sentences of a text, each with its codes and the terms of a glossary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from model.tokenizer import Tokenizer
from server.text.protection.glossary import TermIndex, TermMatch
from server.text.protection.terms import form, is_start
from server.text.segmentation import Span, Split, span_around, split_long_sentence, split_sentences
from server.text.tagged import Code, Tagged


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence at `start` of its text, or a part at `start` of its sentence, with the terms of the glossary in it."""

    start: int
    tagged: Tagged
    terms: tuple[TermMatch, ...] = ()

    @property
    def is_message(self) -> bool:
        """Whether it is a message with arms and nothing else."""
        codes = self.tagged.codes
        return (
            bool(codes) and codes[0].message is not None and codes[0].end == len(self.tagged.text) and len(codes) == 1
        )

    def cut(self, starts: Sequence[int], limit: int) -> list[Sentence]:
        """Returns the parts of a sentence of more than `limit` tokens, which begin at `starts`
        (`segmentation.split_long_sentence`)."""
        spans = split_long_sentence(self.tagged.text, starts, limit, _spans(self.tagged, self.terms))
        return [self.part(start, end) for start, end in spans]

    def part(self, start: int, end: int) -> Sentence:
        """Returns the part [start, end), with its codes and the terms that begin in it."""
        return Sentence(start, self.tagged.cut(start, end), _terms_within(self.terms, start, end))


def split(
    tagged: Tagged, language: str, split: Split, glossary: TermIndex | None, tokenizer: Tokenizer
) -> list[Sentence]:
    """Returns the sentences of a text. None begins or ends within a code or a term, or contains a code that splits. The
    vocabulary of `tokenizer` says which terms the model can write."""
    terms: list[TermMatch] = []
    if glossary is not None:
        tagged, terms = _with_terms(tagged, language, glossary, split == "all", tokenizer)
    text = tagged.text
    if not tagged.codes and not terms:
        return [
            Sentence(start, Tagged(text[start:end], (), tagged.escape))
            for start, end in split_sentences(text, language, split)
        ]
    breaks = [(code.start, code.end) for code in tagged.codes if code.splits]
    spans, done = [], 0
    for start, end in (*breaks, (len(text), len(text))):
        if start > done:
            spans += [(first + done, last + done) for first, last in split_sentences(text[done:start], language, split)]
        done = end
    whole = Sentence(0, tagged, tuple(terms))
    return [whole.part(start, end) for start, end in _joined_within(spans, _spans(tagged, terms))]


def _with_terms(
    tagged: Tagged, language: str, glossary: TermIndex, lines: bool, tokenizer: Tokenizer
) -> tuple[Tagged, list[TermMatch]]:
    """Returns a text and its terms, in order and without overlaps. With `lines` no term contains a line end.

    A term with codes inside becomes a code itself, if its translation has the same ones; so does a term whose translation
    the model cannot write.
    """
    text = tagged.text
    visible = [code for code in tagged.codes if code.start < code.end]
    starts = [code.start for code in visible]
    terms: list[TermMatch] = []
    replaced: list[Code] = []
    for match in _matches(tagged, visible, glossary, lines, language):
        inside = visible[bisect_left(starts, match.start) : bisect_left(starts, match.end)]
        target = match.entry.target
        if not inside and is_written(target, tokenizer):
            terms.append(match)
        elif all(_is_kept(code, tagged, match) for code in inside):
            written = form(match, text, is_start(text, match.start))
            replaced.append(Code(match.start, match.end, word="name", kind="term", equiv=written))
    return with_codes(tagged, replaced) if replaced else tagged, terms


def _matches(
    tagged: Tagged, visible: Sequence[Code], glossary: TermIndex, lines: bool, language: str
) -> Iterator[TermMatch]:
    """Yields the terms of each part of a text that splitting codes do not separate."""
    ends = [*[code.start for code in tagged.codes if code.splits], len(tagged.text)]
    spans = [(code.start, code.end) for code in visible]
    done = number = 0
    for end in ends:
        if end <= done:
            continue
        inside = []
        while number < len(spans) and spans[number][1] <= end:
            inside.append((spans[number][0] - done, spans[number][1] - done))
            number += 1
        for match in glossary.find(tagged.text[done:end], inside, lines, language):
            yield match._replace(start=match.start + done, end=match.end + done)
        done = end


def with_codes(tagged: Tagged, further: Sequence[Code]) -> Tagged:
    """Returns a text with further codes, which are in order, in place of those within them. Markup within one follows it."""
    codes: list[Code] = []
    waiting = list(further)[::-1]
    late: list[Code] = []
    for code in tagged.codes:
        while waiting and waiting[-1].end <= code.start:
            codes += [waiting.pop(), *late]
            late = []
        if not waiting or code.end <= waiting[-1].start:
            codes.append(code)
        elif code.start == code.end:
            end = waiting[-1].end
            late.append(code._replace(start=end, end=end))
    codes += [*waiting[-1:], *late, *waiting[-2::-1]]
    return replace(tagged, codes=tuple(codes))


def is_written(term: str, tokenizer: Tokenizer) -> bool:
    """Returns whether a vocabulary has pieces for a term. A model that spells it in bytes loses the words around it."""
    tokens = tokenizer.encode_target(term)
    return tokenizer.decode(tokens) == term and not any(tokenizer.piece(token).startswith("<0x") for token in tokens)


def _is_kept(code: Code, tagged: Tagged, match: TermMatch) -> bool:
    """Returns whether the translation of a term has a code that is within the term."""
    shown = tagged.text[code.start : code.end]
    return (
        bool(code.word) and tagged.is_text(code) and match.entry.target.count(shown) == match.entry.source.count(shown)
    )


def _spans(tagged: Tagged, terms: Sequence[TermMatch]) -> list[Span]:
    """Returns the places of codes and terms at which no sentence ends, in order."""
    codes = [(code.start, code.end) for code in tagged.codes if code.start < code.end and not code.splits]
    return sorted([*codes, *[(term.start, term.end) for term in terms]]) if terms else codes


def _joined_within(sentences: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    """Returns the sentences, which are in order, joined where one ends within one of the spans."""
    joined: list[Span] = []
    for first, last in sentences:
        start, end = span_around(first, spans)[0], span_around(last, spans)[1]
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _terms_within(terms: Sequence[TermMatch], start: int, end: int) -> tuple[TermMatch, ...]:
    """Returns the terms that begin in [start, end), with positions counted from `start`."""
    if not terms:
        return ()
    first = bisect_left(terms, start, key=lambda term: term.start)
    last = bisect_left(terms, end, lo=first, key=lambda term: term.start)
    return tuple([term._replace(start=term.start - start, end=term.end - start) for term in terms[first:last]])
