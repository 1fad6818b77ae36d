"""Further decodings of a sentence, and the choice among the candidates.

The candidate with fewer faults is chosen; with equal faults, the later one if its score exceeds the
score of the earlier one by its margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from model.search.options import DecodingOptions
from model.symbols import forms_of_address
from server.engine.client.batch import gather_or_cancel
from server.errors import InvalidRequest
from server.text.exact_tokens import all_tokens, is_plain, lost_tokens, words
from server.text.numbers import is_roman, numbers
from server.text.spans import NO_SPACES, WORD, blanked
from server.text.syntax.match import Match
from server.translation.catalog import Leg
from server.translation.context import Draft, Form, SentenceContext
from server.translation.preparation import Segment, with_codes

WEIGHT = 0.3
"""Factor of the reverse score. Both scores are normalised by length."""
MARGIN, MOST = 0.6, 4
"""Both directions are compared for at most MOST hypotheses, whose scores are at most MARGIN below
the best."""
WORDS, SENTENCE_WORDS = 5, 3
"""Most words of a text, and of one that ends as a sentence, that is also read with a small first
letter."""
UNSURE = -0.3
"""A translation with a higher score is kept without reading the text with a small first letter."""
GAIN, GAIN_OVER_COPY = 0.2, 0.1
"""The margin of this reading, and its margin over a translation that copies the text."""
ADDRESS_BEAM, ADDRESS_MARGIN = 8, 0.5
"""Beam width of the search for a form of address. A hypothesis with a lower score says something
else."""
MANY_NUMBERS = 3
"""If a sentence has more numbers, all of them are masked at once."""
_RARE_LETTERS = frozenset("àâæçèéêëîïôœùûüÿ")
"""Letters that a vocabulary may lack although the language has them: a word such as Israël is
translated."""


class Candidate(NamedTuple):
    """A draft with its number of faults, and its margin over the candidate before it."""

    draft: Draft
    faults: int = 0
    margin: float = 0.0


def better(before: Candidate, other: Candidate, options: DecodingOptions) -> Candidate:
    """Returns the candidate that is chosen. `options` are those of the scores."""
    if before.faults != other.faults or before.draft.copied or other.draft.copied:
        return other if other.faults < before.faults else before
    least = before.draft.score(options) + other.margin
    return other if other.draft.score(options) > least else before


async def decoded(context: SentenceContext, form: Form, segment: Segment) -> Draft:
    """Returns a translation of a form of the segment.

    If the request asks for reranking, the hypotheses are ordered by the scores of both directions:
    a hypothesis that leaves out or invents something makes its source improbable (Yee, Dauphin and
    Auli 2019, "Simple and Effective Noisy Channel Modeling"). The best one does not depend on the
    number of hypotheses."""
    draft = await context.decode(form, segment)
    if draft.copied or not context.options.rerank:
        return draft
    listed, hypotheses = context.request.options.hypotheses, draft.answer.hypotheses
    lowest = hypotheses[0].score - MARGIN
    near = sum([each.score >= lowest for each in hypotheses[: min(MOST, context.best.beam_size)]])
    draft = replace(draft, answer=replace(draft.answer, hypotheses=hypotheses[: max(near, listed)]))
    if near > 1 and (reverse := context.leg.reverse) is not None:
        scores: Form = "reverse" if form == "beam" else form
        draft = await _in_both_directions(context, scores, reverse, draft, near)
    answer = replace(draft.answer, hypotheses=draft.answer.hypotheses[:listed])
    return Draft(
        draft.segment, answer, context.leg.model.tokenizer.decode(answer.hypotheses[0].tokens)
    )


async def _in_both_directions(
    context: SentenceContext, form: Form, reverse: Leg, draft: Draft, near: int
) -> Draft:
    """Returns the draft with its hypotheses in the order of both directions, the first of which is
    one of the first `near`. Unchanged if one of these is too long for the reverse direction."""
    hypotheses, read = draft.answer.hypotheses, draft.segment.read
    model, options = reverse.model, context.request.options
    source = model.tokenizer.encode_target(read)
    texts = [model.tokenizer.decode(each.tokens) for each in hypotheses]
    written = [reverse.encode_ids(text) for text in texts]
    if max(len(source) + 1, *map(len, written[:near])) > model.max_length:
        return draft
    legible = [place for place, ids in enumerate(written) if len(ids) <= model.max_length]
    scored = reverse.decoding_options(
        DecodingOptions(
            target=source,
            length_penalty=options.length_penalty,
            normalization=options.normalization,
            masked_heads=options.masked_heads,
        )
    )
    answers = await gather_or_cancel(
        [context.answer(form, reverse, written[place], scored) for place in legible]
    )
    both = {
        place: replace(
            hypotheses[place], score=hypotheses[place].score + WEIGHT * answer.hypotheses[0].score
        )
        for place, answer in zip(legible, answers, strict=True)
    }
    # A copy predicts its text best, so a copy is first only if the search has put it there.
    copies = [place > 0 and text.casefold() == read.casefold() for place, text in enumerate(texts)]
    order = sorted(both, key=lambda place: (copies[place], -both[place].score))
    best = next(place for place in order if place < near)
    order.sort(key=best.__ne__)
    context.metrics.reranked.add("other" if order[0] else "search")
    slowest = max([answer.timings for answer in answers], key=attrgetter("seconds"))
    timings = draft.answer.timings.then(slowest)
    ordered = tuple([both[place] for place in order])
    return replace(draft, answer=replace(draft.answer, hypotheses=ordered, timings=timings))


async def small(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft, or a better one of a short text with a small first letter: a model may
    copy `Next` and translate `next`."""
    segment = draft.segment
    if (
        segment.read.count(" ") >= WORDS
        or not may_begin_small(segment)
        or draft.score(context.options) >= UNSURE
    ):
        return draft
    other = await decoded(context, "small", with_small_first_letter(segment, context.leg))
    margin = GAIN_OVER_COPY if draft.text.casefold() == segment.read.casefold() else GAIN
    return better(Candidate(draft), Candidate(other, margin=margin), context.options).draft


def may_begin_small(segment: Segment) -> bool:
    """Returns whether a segment is short and its only capital is the first letter."""
    read = segment.read
    longest = SENTENCE_WORDS if read.endswith((".", "!", "?")) else WORDS
    if segment.messages or segment.terms or not read[:1].isupper() or len(read.split()) > longest:
        return False
    small = read[0].lower() + read[1:]
    return small == read.lower() and 1 < len(read) == len(small) and WORD.findall(read)[0] != "I"


def with_small_first_letter(segment: Segment, leg: Leg) -> Segment:
    """Returns the segment as the model reads it with a small first letter."""
    small = segment.read[0].lower() + segment.read[1:]
    return replace(
        segment,
        ids=leg.encode_ids(small),
        reading=segment.reading._replace(text=small),
        small_first=True,
    )


async def address(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft, or a hypothesis of a wider beam with the leg's form of address."""
    leg, options = context.leg, context.request.options
    if forms_of_address(draft.text, leg.target) <= {leg.symbol}:
        return draft
    wider = leg.decoding_options(
        replace(options, beam_size=ADDRESS_BEAM, hypotheses=ADDRESS_BEAM, rerank=False)
    )
    try:
        answer = await context.answer("address", leg, draft.segment.ids, wider)
    except InvalidRequest:  # the beam has more rows than the server has slots
        return draft
    lowest = answer.hypotheses[0].score - ADDRESS_MARGIN
    for best in [each for each in answer.hypotheses if each.score >= lowest]:
        text = leg.model.tokenizer.decode(best.tokens)
        if forms_of_address(text, leg.target) == {leg.symbol}:
            others = [each for each in draft.answer.hypotheses if each.tokens != best.tokens]
            hypotheses = (best, *others)[: options.hypotheses]
            return Draft(draft.segment, replace(answer, hypotheses=hypotheses), text)
    return draft


async def masked(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft, or if it lost or doubled exact tokens, a better one with these masked, and
    then with all of them masked."""
    leg, best = context.leg, draft
    segment = draft.segment
    if (
        all(code.start == code.end for code in segment.tagged.codes)
        and is_plain(segment.text, draft.text)
        and not leg.model.tokenizer.may_spell(segment.ids)
        and not _damaged(segment.text, draft.text, leg)
    ):
        return draft
    for everything in (False, True):
        if (
            not everything
            and sum([each.whole for each in numbers(best.segment.text)]) > MANY_NUMBERS
        ):
            continue
        missing, segment = lost(best.segment, best.text, leg), best.segment
        if missing is None:
            break
        other = with_codes(segment, all_of(segment, leg) if everything else missing, leg)
        if other is None and everything:
            other = with_codes(segment, words(segment.text, capitals=True), leg)
        if other is None:
            continue
        again = await decoded(context, "masked", other)
        left = 0 if everything else len(lost(other, again.text, leg) or ())
        before = Candidate(best, len(missing) or 1)
        best = better(before, Candidate(again, left, margin=float("inf")), context.options).draft
    return best


def lost(segment: Segment, target: str, leg: Leg) -> list[Match] | None:
    """Returns the exact tokens that the translation `target` of a reading lacks or doubles, an
    empty list if it only lacks stand-ins, and None if it is complete."""
    reading = segment.reading
    visible = blanked(segment.text, [(code.start, code.end) for code in segment.tagged.codes], "\n")
    read, written = visible.casefold(), target.casefold()
    missing = lost_tokens(visible, reading.without_stand_ins(target), leg.target)
    names = []
    for name in _names_in_bytes(segment, leg):
        word = visible[name.start : name.end].casefold().removesuffix("s")  # of a genitive
        if word.strip() and written.count(word) < read.count(word):
            names.append(name)
    names += _damaged(visible, target, leg)
    if missing is None and not names and not reading.missing(target):
        return None
    return [*(missing or ()), *names]


def _damaged(text: str, target: str, leg: Leg) -> list[Match]:
    """Returns the names in capitals that a translation writes with fewer letters, CN for CNN, or
    with others, BIPDR for GDPR. A single piece of the vocabulary is a translation: UN for UNO."""
    names = {text[each.start : each.end]: each for each in words(text, True)}
    lacks = [name for name in names if name not in target]
    if not 0 < len(lacks) < 4:  # a shout
        return []
    new = {target[each.start : each.end] for each in words(target, True)} - {*names}
    encode = leg.model.tokenizer.encode_target
    sizes = {name: len(encode(name)) for name in new if not is_roman(name)}
    return [
        names[name] for name in lacks if any(_is_damaged(name, *each) for each in sizes.items())
    ]


def _is_damaged(name: str, written: str, pieces: int) -> bool:
    if len(written) > len(name):
        return pieces > 2
    letters = iter(name)
    is_part = len(written) < len(name) <= 2 * len(written) and pieces > 1
    return is_part and all(letter in letters for letter in written)


def all_of(segment: Segment, leg: Leg) -> list[Match]:
    """Returns all tokens that may be masked, the most exact first."""
    tokens = all_tokens(segment.text)
    return [*[token for token in tokens if token.kind], *_names_in_bytes(segment, leg), *tokens]


def _names_in_bytes(segment: Segment, leg: Leg) -> Sequence[Match]:
    """Returns the words with a letter that the vocabulary spells in bytes, such as Erdoğan: they
    are names in another language. So are words near them that are spelled letter by letter."""
    tokenizer = leg.model.tokenizer
    if not tokenizer.may_spell(segment.ids):
        return ()
    letters = [each for each in {*segment.text} if each.isalpha() and not each.isascii()]
    rare = [each for each in letters if each.lower() not in _RARE_LETTERS]
    spelled = {each for each in rare if tokenizer.may_spell(tokenizer.encode_ids(each.lower()))}
    every = words(segment.text) if spelled else ()
    parts = [segment.text[word.start : word.end] for word in every]
    names = [*map(spelled.intersection, parts)]
    return [
        word
        for n, (word, part) in enumerate(zip(every, parts, strict=True))
        if any(names[max(0, n - 2) : n + 3])
        and (names[n] or len(part.encode()) > len(part) <= len(tokenizer.encode_target(part)) + 1)
    ]


def distinct_alternatives(best: str, others: Sequence[str]) -> tuple[str, ...]:
    """Returns the other translations in order, without those that differ from the best or an
    earlier one only in punctuation, spaces or the case of the first and last word, and without
    those that add words to the end of the best."""
    first = _bare_words(best)
    start = [*map(str.casefold, first)]
    seen = {first}
    kept = []
    for other in others:
        words = _bare_words(other)
        if words not in seen and not (
            len(words) > len(first) > 0 and [*map(str.casefold, words[: len(first)])] == start
        ):
            kept.append(other)
        seen.add(words)
    return tuple(kept)


def _bare_words(text: str) -> tuple[str, ...]:
    """Returns the words, or characters of a script without spaces, the first and the last one in
    small letters."""
    words = [
        part for word in WORD.findall(text) for part in (word if NO_SPACES.search(word) else [word])
    ]
    ends = (0, len(words) - 1)
    return tuple([word.casefold() if place in ends else word for place, word in enumerate(words)])
