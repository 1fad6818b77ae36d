"""The sentences of a text, each with its protected spans and the terms of a glossary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from model.tokenizer import Tokenizer
from server.text.protection.find import ProtectedSpan, find_protected_spans
from server.text.protection.glossary import TermIndex, TermMatch
from server.text.protection.terms import form, is_start
from server.text.segmentation import Span, Split, span_around, split_long_sentence, split_sentences

Part = TypeVar("Part", ProtectedSpan, TermMatch)


@dataclass(slots=True)
class ProtectedSentence:
    """A sentence at `start` of its text, or a part at `start` of its sentence. The positions of its protected spans and terms
    are counted from there."""

    start: int
    text: str
    spans: Sequence[ProtectedSpan] = ()
    terms: Sequence[TermMatch] = ()

    @property
    def is_message(self) -> bool:
        """Whether it is an ICU message and nothing else."""
        first = self.spans[0] if self.spans else None
        return first is not None and (first.role, first.start, first.end) == ("icu", 0, len(self.text))

    def cut(self, starts: Sequence[int], limit: int) -> list[ProtectedSentence]:
        """Returns the parts of a sentence of more than `limit` tokens, which begin at `starts`
        (`segmentation.split_long_sentence`)."""
        cuts = split_long_sentence(self.text, starts, limit, _in_order((*self.spans, *self.terms)))
        return [self.part(start, end) for start, end in cuts]

    def part(self, start: int, end: int) -> ProtectedSentence:
        """Returns the part [start, end), with the spans and terms that begin in it."""
        spans, terms = _parts_within(self.spans, start, end), _parts_within(self.terms, start, end)
        return ProtectedSentence(start, self.text[start:end], spans, terms)


def protected_sentences(
    text: str, language: str, split: Split, kept: tuple[str, ...], glossary: TermIndex | None, tokenizer: Tokenizer
) -> list[ProtectedSentence]:
    """Returns the sentences of a text. A sentence does not begin or end within a protected span or a term, or contain a
    break. The words of `kept` are protected too. The vocabulary of `tokenizer` says which terms the model can write."""
    spans, terms = _find_parts(text, language, kept, glossary, split == "all", tokenizer)
    if not spans and not terms:
        sentences = split_sentences(text, language, split)
        return [ProtectedSentence(start, text[start:end]) for start, end in sentences]
    breaks = [(span.start, span.end) for span in spans if span.role == "break"]
    sentences, done = [], 0
    for start, end in (*breaks, (len(text), len(text))):
        sentences += [(first + done, last + done) for first, last in split_sentences(text[done:start], language, split)]
        done = end
    joined = _joined_within(sentences, [*[span for span in spans if span.role != "break"], *terms])
    whole = ProtectedSentence(0, text, spans, terms)
    return [whole.part(start, end) for start, end in joined]


def _find_parts(
    text: str, language: str, kept: tuple[str, ...], glossary: TermIndex | None, lines: bool, tokenizer: Tokenizer
) -> tuple[list[ProtectedSpan], list[TermMatch]]:
    """Returns the protected spans and the terms of a text, both in order and without overlaps. With `lines` no term
    contains a line end.

    A term with protected spans inside becomes a protected span itself, if its translation has the same ones; so does a
    term whose translation the model cannot write.
    """
    spans = find_protected_spans(text, kept)
    if glossary is None:
        return spans, []
    terms: list[TermMatch] = []
    replaced: list[ProtectedSpan] = []
    for match in glossary.find(text, [(span.start, span.end) for span in spans], lines, language):
        inside = [span for span in spans if match.start <= span.start and span.end <= match.end]
        target = match.entry.target
        if not inside and _is_written(target, tokenizer):
            terms.append(match)
        elif all(_is_kept(span, text, match) for span in inside):
            written = form(match, text, is_start(text, match.start))
            replaced.append(ProtectedSpan(match.start, match.end, "word", written=written))
    outer = [span for span in spans if not any(term.start <= span.start < term.end for term in replaced)]
    return sorted([*outer, *replaced], key=lambda span: span.start), terms


def _is_written(term: str, tokenizer: Tokenizer) -> bool:
    """Returns whether a vocabulary has pieces for a term. A model that spells it in bytes loses the words around it."""
    tokens = tokenizer.encode_target(term)
    return tokenizer.decode(tokens) == term and not any(tokenizer.piece(token).startswith("<0x") for token in tokens)


def _is_kept(span: ProtectedSpan, text: str, match: TermMatch) -> bool:
    """Returns whether the translation of a term has a span that is within the term."""
    written = text[span.start : span.end]
    return span.role in ("word", "number") and match.entry.target.count(written) == match.entry.source.count(written)


def _joined_within(sentences: Sequence[Span], parts: Sequence[ProtectedSpan | TermMatch]) -> list[Span]:
    """Returns the sentences, which are in order, joined where one ends within a span or a term."""
    spans = _in_order(parts)
    joined: list[Span] = []
    for first, last in sentences:
        start, end = span_around(first, spans)[0], span_around(last, spans)[1]
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _in_order(parts: Sequence[ProtectedSpan | TermMatch]) -> list[Span]:
    return sorted([(part.start, part.end) for part in parts])


def _parts_within(parts: Sequence[Part], start: int, end: int) -> list[Part]:
    """Returns the spans or terms that begin in [start, end), with positions counted from `start`. `parts` are in order."""
    if not parts:
        return []
    first = bisect_left(parts, start, key=lambda part: part.start)
    last = bisect_left(parts, end, lo=first, key=lambda part: part.start)
    if not start:
        return list(parts[first:last])
    return [part._replace(start=part.start - start, end=part.end - start) for part in parts[first:last]]
