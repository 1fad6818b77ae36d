"""Tells the terms of a glossary from the protected spans of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from server.text.glossary import TermIndex, TermMatch
from server.text.offsets import edited
from server.text.protected_spans import ProtectedSpan
from server.text.term_forms import form, is_start


def find_terms(
    text: str, glossary: TermIndex, spans: Sequence[ProtectedSpan], lines: bool, writable: Callable[[str], bool]
) -> tuple[list[ProtectedSpan], list[TermMatch]]:
    """Returns the protected spans and the terms of a text, both in order and without overlaps. With `lines` no term
    contains a line end.

    A term with protected spans inside becomes a protected span itself, if its translation has the same ones; so does a
    term whose translation is not `writable` by the model.
    """
    matches = glossary.find(text, [(span.start, span.end) for span in spans], lines)
    terms: list[TermMatch] = []
    replaced: list[ProtectedSpan] = []
    for match in matches:
        inside = [span for span in spans if match.start <= span.start and span.end <= match.end]
        if not inside and writable(match.entry.target):
            terms.append(match)
        elif all(_is_kept(span, text, match) for span in inside):
            written = form(match, text, is_start(text, match.start))
            replaced.append(ProtectedSpan(match.start, match.end, "word", written=written))
    if replaced:
        outer = [span for span in spans if not any(one.start <= span.start < one.end for one in replaced)]
        spans = sorted([*outer, *replaced], key=lambda span: span.start)
    return list(spans), terms


def terms_within(terms: Sequence[TermMatch], start: int, end: int) -> tuple[TermMatch, ...]:
    """Returns the terms in [start, end), with positions counted from `start`."""
    return tuple(
        [replace(one, start=one.start - start, end=one.end - start) for one in terms if start <= one.start < end]
    )


def with_translated_terms(text: str, terms: Sequence[TermMatch], spans: Sequence[ProtectedSpan]) -> str:
    """Returns a text that is copied, with its terms translated."""
    edits = [(term.start, term.end, form(term, text, is_start(text, term.start))) for term in terms]
    edits += [(span.start, span.end, span.written) for span in spans if span.written]
    return edited(text, sorted(edits))[0] if edits else text


def without_terms(text: str, terms: Sequence[TermMatch]) -> str:
    """Returns the rest of a text."""
    return edited(text, [(term.start, term.end, " ") for term in terms])[0]


def _is_kept(span: ProtectedSpan, text: str, match: TermMatch) -> bool:
    """Returns whether the translation of a term has a span that is within the term."""
    written = text[span.start : span.end]
    return span.role in ("word", "number") and match.entry.target.count(written) == match.entry.source.count(written)
