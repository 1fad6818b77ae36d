"""Moves inline markup from a text to its translation, onto the words that correspond."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from server.text.markup.projection import Link, SpanProjection
from server.text.segmentation import Span


@dataclass(frozen=True, slots=True)
class Mark:
    """Inline markup of a text: `opening` is written before `span` and `closing` after it. A point has an empty span and
    no closing. `order` and `end_order` number the opening and closing tags of a text as written; a mark lies within
    another if its numbers lie between those of the other. Marks of a text are sorted by `order`. `spaces` says whether a
    point stands apart from the text before and after it: where it would not, a space is written."""

    opening: str
    closing: str
    span: Span
    order: int
    end_order: int
    spaces: tuple[bool, bool] = (False, False)


def project_marks(marks: Sequence[Mark], source: str, target: str, links: Sequence[Link]) -> tuple[Mark, ...]:
    """Returns every mark of the source once, at its span in the target, properly nested and renumbered.

    `links` may overlap and need not cover every word. A mark without links keeps its relative position.
    """
    if not marks:
        return ()
    projected: list[Mark] = []
    _project(marks, SpanProjection(source, target, links), (0, len(target)), 0, projected)
    return tuple(projected)


def _project(
    inside: Sequence[Mark], projection: SpanProjection, within: Span, order: int, projected: list[Mark]
) -> int:
    """Projects marks into a span of the target and appends them to `projected`. `order` is the last number that is used;
    returns the last one then."""
    done, end = within
    wanted = [(mark, _projected(mark, projection), children) for mark, children in _outermost(inside)]
    wanted.sort(key=lambda item: (item[1][0], item[0].order))
    for number, (mark, span, children) in enumerate(wanted):
        first = min(max(span[0], done), end)
        done = min(max(span[1], first), end)
        start, last = wanted[number + 1][1] if number + 1 < len(wanted) else (end, end)
        if first < start < min(done, last):  # the next mark keeps its words
            done = max(first, len(projection.target[:start].rstrip()))
        opened, index = order + 1, len(projected)
        projected.append(mark)  # is replaced below; keeps the list sorted by opening tag
        order = _project(children, projection, (first, done), opened, projected)
        order += 1 if mark.closing else 0
        projected[index] = Mark(
            mark.opening, mark.closing, (first, done), opened, order if mark.closing else opened, mark.spaces
        )
    return order


def _projected(mark: Mark, projection: SpanProjection) -> Span:
    """Returns the span of a mark in the target. A raised part of a word that the target does not have (1<sup>st</sup>)
    becomes empty, since the whole word must not be raised."""
    if found := projection.within_word(mark.span):
        return found
    span, start = projection.project(mark.span), mark.span[0]
    around = projection.source[max(0, start - 1) : min(start + 1, mark.span[1])]
    if mark.opening[:4].lower() in ("<sup", "<sub") and len(around) == 2 and around.isalnum():
        return span[1], span[1]
    return span


def with_marks(marks: Sequence[Mark], text: str, write: Callable[[str], str]) -> Iterator[tuple[str, bool]]:
    """Yields the parts of the text, each passed through `write`, and the marks between them. The second item is True
    for a mark."""
    open_marks: list[Mark] = []
    done = 0
    for mark in marks:
        while open_marks and open_marks[-1].end_order < mark.order:
            closed = open_marks.pop()
            yield write(text[done : closed.span[1]]), False
            yield closed.closing, True
            done = max(done, closed.span[1])
        at = max(done, mark.span[0])
        yield write(text[done:at]), False
        if mark.spaces[0] and at > 0 and not text[at - 1].isspace():
            spaces = _spaces_before(mark, text, at)
            yield (write(spaces) or " "), False
            at += len(spaces)
        yield mark.opening, True
        if mark.spaces[1] and at < len(text) and not text[at].isspace():
            yield " ", False
        done = at
        if mark.closing:
            open_marks.append(mark)
    for closed in reversed(open_marks):
        yield write(text[done : closed.span[1]]), False
        yield closed.closing, True
        done = max(done, closed.span[1])
    yield write(text[done:]), False


def _spaces_before(mark: Mark, text: str, at: int) -> str:
    """Returns the spaces of text[at:] that belong before a point: all but the last, or all where the text then ends or
    goes on with punctuation and the point had no space after it."""
    run = len(text) - at - len(text[at:].lstrip())
    kept = mark.spaces[1] or text[at + run : at + run + 1].isalnum()
    return text[at : at + run - 1] if kept else text[at : at + run]


def _outermost(marks: Sequence[Mark]) -> list[tuple[Mark, list[Mark]]]:
    """Returns the marks that lie in no other mark, each with the marks within it."""
    found: list[tuple[Mark, list[Mark]]] = []
    for mark in marks:
        if found and mark.order < found[-1][0].end_order:
            found[-1][1].append(mark)
        else:
            found.append((mark, []))
    return found
