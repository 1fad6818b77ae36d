"""Finishes a translation: places each code once, adapts the first letter and the last mark of a
part of a sentence, and restores the spelling of the source: marks, numbers, hours of the day."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from server.engine.client.batch import gather_or_cancel
from server.text.exact_tokens import may_hold, respelled
from server.text.finishing import Finished, finish, unchanged
from server.text.glossary import Edit, case_edits, form, is_start
from server.text.languages import primary_subtag
from server.text.numbers import HALVES, Number, numbers, with_endings, with_formats
from server.text.projection import Link
from server.text.reading import APOSTROPHE, CONJUNCTIONS, SYMBOL, Reading, masked, stand_ins_of
from server.text.spans import WORD
from server.text.tagged import Code, Tagged
from server.text.translation_checks import ordinary_words
from server.translation import terms
from server.translation.candidates import decoded
from server.translation.context import COPIED, Draft, SentenceContext
from server.translation.preparation import Segment

_BEFORE = ", "
"""Stands for the words before a part of a sentence."""
_FIRST = re.compile(r"[^\w'’]*([^\W\d_][^\W_]*)")
_AMOUNT = frozenset("€£¥$%°")
_MARKS, _MARKED = ",;:", frozenset("…!?")
_REPEATED = re.compile(r"\.\.+|…|[!?](?:\s?[!?])*+")


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the final texts of its hypotheses."""
    draft = await with_all_codes(context, draft)
    if (draft.segment.continues or draft.segment.unfinished) and not draft.copied:
        draft = await as_part(context, draft)
    return respelled_draft(context, draft)


async def with_all_codes(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the texts of its hypotheses with all codes. A code that the model
    dropped is at its aligned place."""
    segment, decode = draft.segment, context.leg.model.tokenizer.decode
    if (
        segment.reading.missing(draft.text)
        and not stand_ins_of(context.leg.model.tokenizer).symbols
    ):
        draft = await _without_stand_ins(context, segment)
        segment = draft.segment
    if is_blank(segment.reading, draft.text):
        return await _copied(context, draft)
    others = [decode(hypothesis.tokens) for hypothesis in draft.answer.hypotheses[1:]]
    reading, texts = segment.reading, [draft.text, *others]
    write = str.upper if reading.capitals else str
    if not segment.tagged.codes and reading.is_complete(draft.text):
        written = [write(_cased(segment, text)) for text in texts]
        draft.finished = tuple([Finished(segment.tagged, text) for text in written])
        return draft
    tagged = await _with_messages(context, segment)
    links: Sequence[Link] = ()
    if _needs_links(segment) or not reading.is_complete(draft.text):
        links = await context.links(reading.text, segment.ids, draft.tokens)
    finished = []
    conjunction = CONJUNCTIONS.get(primary_subtag(context.leg.target), "and")
    for text in texts:
        cased = _cased(segment, text)
        finished.append(finish(tagged, reading, cased, links, write, conjunction))
        links = ()  # those of the best hypothesis
    words = [code for code in tagged.codes if code.word]
    restored = finished[0].restored or len(words) > len(reading.stand_ins)
    draft.finished = tuple(finished)
    draft.flags = frozenset({"placeholder_restored"} if restored else ())
    if tagged is not segment.tagged:
        draft.segment = replace(segment, tagged=tagged)
    return draft


def is_blank(reading: Reading, target: str) -> bool:
    """Returns whether a translation is empty but for stand-ins and symbols."""
    return not SYMBOL.sub("", reading.without_stand_ins(target)).strip()


async def _copied(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft of a copied segment, in which only terms and the arms of messages are
    translated."""
    segment = draft.segment
    tagged = await _with_messages(context, segment)
    text = segment.text
    written = [
        (term.start, term.end, form(term, text, is_start(text, term.start)))
        for term in segment.terms
    ]
    shown = [
        (code.start, code.end, code.equiv)
        for code in tagged.codes
        if code.equiv != text[code.start : code.end]
    ]
    finished = unchanged(tagged).edited(sorted([*written, *shown]))
    flagged = not draft.copied and ordinary_words(text)
    bare = replace(segment, ids=(), reading=Reading(), tagged=tagged)
    return Draft(bare, COPIED, finished=(finished,), flags=frozenset({"copied"} if flagged else ()))


async def _with_messages(context: SentenceContext, segment: Segment) -> Tagged:
    """Returns the segment with the arms of its messages translated."""
    if not segment.messages:
        return segment.tagged
    arms = {arm.content: arm for message in segment.messages for arm in message.segments}
    contexts = [replace(context, segment=arm, on_progress=None, spent={}) for arm in arms.values()]
    drafts = await gather_or_cancel([context.translate(arm) for arm in contexts])
    targets = {content: draft.finished[0] for content, draft in zip(arms, drafts, strict=True)}

    messages = iter(segment.messages)

    def translated(code: Code) -> Code:
        if not code.flows:
            return code
        segmented = next(messages)
        message = segmented.join([targets[arm.content] for arm in segmented.segments])
        return code._replace(equiv=message.text, data=None, message=message)

    return segment.tagged._replace(codes=tuple(map(translated, segment.tagged.codes)))


def _cased(segment: Segment, text: str) -> str:
    """Returns a translation with the capital first letter of its source."""
    is_capital = segment.small_first
    if not is_capital and text.islower() and not segment.continues:
        start, end = _FIRST.match(segment.read), _FIRST.match(text)
        if start and end and start[1][0].isupper():
            is_capital = end[1] not in segment.text.split()  # npm
    return with_capital_first_letter(text) if is_capital else text


def with_capital_first_letter(text: str) -> str:
    """Returns a text with its first letter as a capital, unless a symbol for a code precedes it."""
    symbol = SYMBOL.search(text)
    for i, character in enumerate(text[: symbol.start()] if symbol else text):
        if character.isalpha():
            capital = character.upper()
            return text[:i] + capital + text[i + 1 :] if len(capital) == 1 else text
    return text


async def _without_stand_ins(context: SentenceContext, segment: Segment) -> Draft:
    """Returns a translation without stand-ins for codes: where one is missing, the model may have
    written another name or number for it."""
    bare = masked(segment.tagged, {}, segment.reading.capitals, segment.reading.apart)
    segment = replace(segment, reading=bare, ids=context.leg.encode_ids(bare.text))
    return await terms.apply(context, await decoded(context, "bare", segment))


def _needs_links(segment: Segment) -> bool:
    """Returns whether the place of a code depends on the words around it: it is between words and
    has no stand-in. Many codes among few words are placed by position."""
    reading = segment.reading
    stood_for = {item.number for item in reading.stand_ins}
    codes = [
        (reading.places[number][0], code.role)
        for number, code in enumerate(segment.tagged.codes)
        if number not in stood_for and code.kind != APOSTROPHE
    ]
    end = len(reading.text.rstrip())
    if all(not 0 < place < end for place, _ in codes):
        return False
    most = sum([role != "ec" for _, role in codes])
    return most < 2 or most <= len(WORD.findall(reading.text))


async def as_part(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the first letter and the last mark of a part of a sentence. A model
    begins every text with a capital and may drop a comma at the end. The capital of a noun or name
    is kept: it is likelier after a comma."""
    segment = draft.segment
    targets = draft.targets
    if segment.continues and await _begins_small(context, draft):
        start = draft.text[:1]
        targets = tuple(
            [text[:1].lower() + text[1:] if text[:1] == start else text for text in targets]
        )
    if segment.unfinished:
        targets = tuple([with_mark(text, segment.text) for text in targets])
    return draft.respelled(targets)


def with_mark(text: str, source: str) -> str:
    """Returns the translation of an unfinished part with the last mark of its source."""
    mark = source[-1:] if source[-1:] in _MARKS else ""
    bare = text.rstrip(".") if not source.endswith(".") and not text.endswith("..") else text
    return bare + mark if bare[-1:].isalnum() else text


async def _begins_small(context: SentenceContext, draft: Draft) -> bool:
    """Returns whether a small first letter is likelier than the capital within a sentence."""
    segment, leg, text = draft.segment, context.leg, draft.text
    small = text[:1].lower() + text[1:]
    if small == text or len(small) != len(text) or draft.targets[0][:1] != text[:1]:
        return False
    if (
        segment.reading.capitals
        or segment.reading.pattern().match(text)
        or case_edits(segment.terms, segment.text, small)
    ):
        return False
    encode = leg.model.tokenizer.encode_target
    within = replace(segment, ids=leg.encode_ids(_BEFORE + segment.read))
    tokens = [tuple(encode(_BEFORE + spelling)) for spelling in (text, small)]
    if max(len(within.ids), *[len(each) + 1 for each in tokens]) > leg.model.max_length:
        return False
    scored = await gather_or_cancel(
        [context.decode("parts", within, target=each) for each in tokens]
    )
    capital, other = [math.fsum(each.answer.hypotheses[0].token_scores) for each in scored]
    return other > capital


def respelled_draft(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the marks, hours and numbers of its source. A copied sentence only
    gets the separators of an amount or of a sentence without words."""
    leg, source = context.leg, draft.segment.tagged.bare
    everything = context.request.localize_numbers
    is_marked = ".." in source or not _MARKED.isdisjoint(source)
    if not draft.copied and (is_marked or may_hold(source)):
        finished = []
        for each in draft.finished:
            target = each.tagged.bare
            edits = [*mark_edits(source, target), *half_edits(source, target)]
            finished.append(each.edited(sorted(edits)))
        draft = replace(draft, finished=tuple(finished))
    targets = before = draft.targets
    if may_hold(source) or not source.isascii():
        is_amount = not draft.flags and (everything or not _AMOUNT.isdisjoint(source))
        if not draft.copied or is_amount:
            targets = tuple(
                [with_formats(source, each, leg.source, leg.target, everything) for each in targets]
            )
        if not draft.copied:
            targets = tuple([respelled(source, target) for target in targets])
            if primary_subtag(leg.target) == "en":
                targets = tuple(map(with_endings, targets))
    return draft if targets == before else draft.respelled(targets)


def mark_edits(source: str, target: str) -> list[Edit]:
    """Returns the edits that give a translation the dots and the marks of its source: models
    write two dots or four for three, "! ! ! !" in French, and "!" for "?!"."""
    edits = []
    for signs in (".…", "!?"):
        own, runs = [
            [match for match in _REPEATED.finditer(side) if match[0][0] in signs]
            for side in (source, target)
        ]
        if signs == "!?" and (len(own) != len(runs) or not {*"¡¿"}.isdisjoint(target)):
            continue
        known = {"…", *[match[0] for match in own]}
        for place, run in enumerate(runs if own else ()):
            marks = "".join(own[min(place, len(own) - 1)][0].split())
            is_run = len(marks) > 1 or marks == "…"
            if run[0] not in known and is_run and (len(run[0]) > 1 or run[0] in marks):
                edits.append((*run.span(), marks))
    return edits


def half_edits(text: str, target: str) -> list[Edit]:
    """Returns the edits that make an hour without its half of the day (6 Uhr for 6 p.m.) one of 24
    hours, and correct a wrong half (6 am). Equal hours of both halves are taken in order."""
    ways = defaultdict[tuple[str, str], list[int]](list)
    for each in numbers(text):
        said = text[each.last : each.until].lower().strip() if each.kind == "clock" else ""
        parts = [hours for word, hours in HALVES.items() if said.endswith(word)]
        hour, minute = _clock(each)
        if (parts or said[-1:] == "m") and hour.isdecimal() and int(hour) <= 12:
            is_late = int(hour) % 12 in parts[0] if parts else said[0] == "p"
            ways[hour, minute[:2] or "00"].append(int(hour) % 12 + 12 * is_late)
    if not ways:
        return []
    has_half = not {*HALVES, "pm", "m"}.isdisjoint(WORD.findall(target.lower()))
    places = defaultdict[tuple[str, str], list[int]](list)
    for each in numbers(target):
        (hour, minute), after = _clock(each), target[each.last : each.last + 6].lstrip().lower()
        is_hour = target[max(0, each.digits - 4) : each.digits] == "las "
        is_hour |= each.kind == "clock" or (after[:1] == "h" and not after[1:2].isalpha())
        said = target[each.last : each.until].lstrip() if each.kind == "clock" else ""
        has_letter = said[-1:].lower() == "m"  # 6 pm
        for way in ways if minute or has_letter or is_hour else ():
            same = minute or ("00" if has_letter else way[1] * (way[1].strip("0") in after))
            if way == (hour, same) and (has_letter or not has_half):
                places[way].append(each.until - len(said) if has_letter else each.digits)
                break
    edits = list[Edit]()
    for way, hours in ways.items():
        if len({*hours}) == 1 or len(hours) == len(places[way]):
            for at, late in zip(places[way], cycle(hours), strict=False):
                old = way[0] if target[at].isdigit() else target[at]
                half = "AP" if old.isupper() else "ap"
                new = str(late) if old.isdigit() else half[late > 11]
                edits += [(at, at + len(old), new)] * (new != old)
    return edits


def _clock(number: Number) -> tuple[str, str]:
    hour, _, minute = number.written.replace(".", ":").partition(":")
    return hour, minute
