"""The candidates of a sentence: what is decoded beside its first translation, and the choice among
them.

A candidate with fewer faults is chosen; of two with as many, the later one if its score is above
that of the one before it by its margin. Each of these functions returns the draft that it was
given, or a better one.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

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
"""The factor of the reverse score. Both scores are normalised by length."""
MARGIN, MOST = 0.6, 4
"""Only the first MOST hypotheses are compared, and of these those at most MARGIN below the best.
Others hardly ever win."""
WORDS, SENTENCE_WORDS = 5, 3
"""The longest text that is read with a small first letter, and the longest that ends as a sentence.
Longer ones gain nothing."""
UNSURE = -0.3
"""A translation with a higher score is kept without a second reading."""
GAIN, GAIN_OVER_COPY = 0.2, 0.1
"""The margin of the second reading, and that over a first translation that copies the text."""
ADDRESS_BEAM, ADDRESS_MARGIN = 8, 0.5
"""A hypothesis whose score is further below that of the best has the form of address, but says
something else."""
MANY_NUMBERS = 3
"""Numbers of a sentence that loses others if only one is masked."""
_RARE_LETTERS = frozenset("àâæçèéêëîïôœùûüÿ")
"""Letters that a vocabulary may lack although the language has them: a word such as Israël is
translated."""


class Candidate(NamedTuple):
    """A draft with its faults, of those that its form may have, and its margin over the candidate
    before it."""

    draft: Draft
    faults: int = 0
    margin: float = 0.0


def better(before: Candidate, other: Candidate, options: DecodingOptions) -> Candidate:
    """Returns the candidate that is chosen. A score is that of the search with these options."""
    if before.faults != other.faults or before.draft.copied or other.draft.copied:
        return other if other.faults < before.faults else before
    return (
        other if other.draft.score(options) > before.draft.score(options) + other.margin else before
    )


def decoded(context: SentenceContext, form: Form, segment: Segment) -> Coroutine[Any, Any, Draft]:
    """Returns a translation of a form of the segment, whose hypotheses are reranked if the request
    asks for it."""
    draft = context.decode(form, segment)
    return (
        _reranked(context, "reverse" if form == "beam" else form, draft)
        if context.options.rerank
        else draft
    )


async def _reranked(
    context: SentenceContext, form: Form, decoding: Coroutine[Any, Any, Draft]
) -> Draft:
    """Returns the draft with as many hypotheses as the request wants, in the order of both
    directions (noisy channel). If there are several to choose from, their `score` is that of both,
    and the timings count the slowest of their scores. How many are wanted does not change which is
    the best.

    A hypothesis that leaves out or invents something makes its source improbable: the model also
    scores the source as its translation (Yee, Dauphin and Auli 2019, "Simple and Effective Noisy
    Channel Modeling")."""
    draft = await decoding
    if draft.copied:
        return draft
    wanted, hypotheses = context.request.options.hypotheses, draft.answer.hypotheses
    lowest = hypotheses[0].score - MARGIN
    near = sum([each.score >= lowest for each in hypotheses[: min(MOST, context.best.beam_size)]])
    draft = replace(draft, answer=replace(draft.answer, hypotheses=hypotheses[: max(near, wanted)]))
    if near > 1 and (reverse := context.leg.reverse) is not None:
        draft = await _in_both_directions(context, form, reverse, draft, near)
    answer = replace(draft.answer, hypotheses=draft.answer.hypotheses[:wanted])
    return Draft(
        draft.segment, answer, context.leg.model.tokenizer.decode(answer.hypotheses[0].tokens)
    )


async def _in_both_directions(
    context: SentenceContext, form: Form, reverse: Leg, draft: Draft, near: int
) -> Draft:
    """Returns the hypotheses in the order of both directions, but for the best, which is one of the
    first `near`. If one of these is too long to be read they are as they were."""
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
    """Reads a short text with a small first letter too.

    Models are trained on sentences, where most words begin with a small letter. Alone and with a
    capital, as in the menus of programs, they are rare: a model may copy `Next` and translate
    `next`."""
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
    """Returns whether a segment is short and only its first letter is a capital that may be
    small."""
    read = segment.read
    longest = SENTENCE_WORDS if read.endswith((".", "!", "?")) else WORDS
    if segment.messages or segment.terms or not read[:1].isupper() or len(read.split()) > longest:
        return False
    small = read[0].lower() + read[1:]
    return small == read.lower() and 1 < len(read) == len(small) and WORD.findall(read)[0] != "I"


def with_small_first_letter(segment: Segment, leg: Leg) -> Segment:
    """Returns a segment that may begin small, with a small first letter in what the model reads."""
    small = segment.read[0].lower() + segment.read[1:]
    return replace(
        segment,
        ids=leg.encode_ids(small),
        reading=segment.reading._replace(text=small),
        small_first=True,
    )


async def address(context: SentenceContext, draft: Draft) -> Draft:
    """Searches a wider beam for a translation that addresses its reader in the form that the leg's
    symbol requests."""
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
    """Translates a sentence again whose translation lost or doubled an exact token, with this token
    masked; if others are then lost, or there are many, with all of them masked."""
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
    """Returns what `target`, the translation of what the model read, lacks or doubles; None if it
    has everything. The list is empty if only stand-ins are missing."""
    reading = segment.reading
    visible = blanked(segment.text, [(code.start, code.end) for code in segment.tagged.codes], "\n")
    read, written = visible.casefold(), target.casefold()
    found = lost_tokens(visible, reading.without_stand_ins(target), leg.target)
    names = []
    for name in _names_in_bytes(segment, leg):
        word = visible[name.start : name.end].casefold().removesuffix("s")  # of a genitive
        if word.strip() and written.count(word) < read.count(word):
            names.append(name)
    names += _damaged(visible, target, leg)
    return (
        [*(found or ()), *names] if found is not None or names or reading.missing(target) else None
    )


def _damaged(text: str, target: str, leg: Leg) -> list[Match]:
    """Returns the names in capitals of which a translation has only some letters, CN for CNN, or
    more, BIPDR for GDPR. A piece of the vocabulary is a translation: UN for UNO."""
    given = {text[each.start : each.end]: each for each in words(text, True)}
    lacks = [name for name in given if name not in target]
    if not 0 < len(lacks) < 4:  # a shout
        return []
    new = {target[each.start : each.end] for each in words(target, True)} - {*given}
    encode = leg.model.tokenizer.encode_target
    sizes = {name: len(encode(name)) for name in new if not is_roman(name)}
    return [
        given[name] for name in lacks if any(_is_damaged(name, *each) for each in sizes.items())
    ]


def _is_damaged(name: str, written: str, pieces: int) -> bool:
    if len(written) > len(name):
        return pieces > 2
    letters = iter(name)
    is_part = len(written) < len(name) <= 2 * len(written) and pieces > 1
    return is_part and all(letter in letters for letter in written)


def all_of(segment: Segment, leg: Leg) -> list[Match]:
    """Returns all that may be masked."""
    tokens = all_tokens(segment.text)
    return [*[token for token in tokens if token.kind], *_names_in_bytes(segment, leg), *tokens]


def _names_in_bytes(segment: Segment, leg: Leg) -> Sequence[Match]:
    """Returns the words with a letter that the vocabulary spells in bytes, such as Erdoğan. The
    model's languages lack it, so they are names, as are words near one that are spelled letter by
    letter: bún Huế."""
    tokenizer = leg.model.tokenizer
    if not tokenizer.may_spell(segment.ids):
        return ()
    letters = [each for each in {*segment.text} if each.isalpha() and not each.isascii()]
    rare = [each for each in letters if each.lower() not in _RARE_LETTERS]
    spelled = {each for each in rare if tokenizer.may_spell(tokenizer.encode_ids(each.lower()))}
    found = words(segment.text) if spelled else ()
    parts = [segment.text[word.start : word.end] for word in found]
    names = [*map(spelled.intersection, parts)]
    return [
        word
        for n, (word, part) in enumerate(zip(found, parts, strict=True))
        if any(names[max(0, n - 2) : n + 3])
        and (names[n] or len(part.encode()) > len(part) <= len(tokenizer.encode_target(part)) + 1)
    ]


def distinct_alternatives(best: str, others: Sequence[str]) -> tuple[str, ...]:
    """Returns the other translations in order, without those that say the same as the best or an
    earlier one: with other punctuation, spaces or case of the first and last word, and without
    those that only add words to the end of the best."""
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
    """Returns the words, or the characters of a script without spaces, with the first and the last
    in small letters."""
    words = [
        part for word in WORD.findall(text) for part in (word if NO_SPACES.search(word) else [word])
    ]
    ends = (0, len(words) - 1)
    return tuple([word.casefold() if place in ends else word for place, word in enumerate(words)])
