"""Puts the protected spans of a segment into its translation, each once; one that the model drops at the aligned place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from server.text.markup.projection import SYMBOL, WORD, Link
from server.text.protection.mask import WORDS, Masked, mask, text_to_read
from server.text.protection.restore import repaired, restore
from server.text.protection.stand_ins import stand_ins_of
from server.text.protection.terms import with_translated_terms
from server.text.translation_checks import ordinary_words
from server.translation.alignment import links_by_position
from server.translation.context import COPIED, Draft, SentenceContext, gather_or_cancel
from server.translation.passes import glossary_terms, reranking
from server.translation.preparation import Segment


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the final texts of its hypotheses: with all spans, in the case of the segment."""
    if not draft.text.strip():
        return await _copied(context, draft)
    segment, decode = draft.segment, context.leg.model.tokenizer.decode
    if not segment.spans and segment.masked.is_complete(draft.text):
        others = [decode(hypothesis.tokens) for hypothesis in draft.answer.hypotheses[1:]]
        targets = tuple([_written(segment, text) for text in (draft.text, *others)])
        return Draft(segment, draft.answer, draft.text, targets)
    messages = await _messages(context, segment)
    if segment.masked.missing(draft.text) and not stand_ins_of(context.leg.model.tokenizer).symbols:
        draft = await _without_stand_ins(context, segment)
        segment = draft.segment
    masked = segment.masked.with_messages(messages)
    best, *others = [decode(hypothesis.tokens) for hypothesis in draft.answer.hypotheses]
    if segment.small_first:
        best, *others = [with_capital_first_letter(text) for text in (best, *others)]
    inserted = bool(masked.missing(best)) or _lacks_stand_ins(segment)
    complete = masked.is_complete(best)
    links: Sequence[Link]
    if complete and not _needs_links(masked):
        links = links_by_position(masked.read, best) if masked.marks else ()
    else:
        links = await context.links(masked.read, segment.ids, draft.tokens)
    write = str.upper if masked.capitals else str
    if not complete:
        best, links = repaired(masked, best, links)
    restored = restore(masked, best, links, write)
    texts = [restored.text]
    for other in others:
        fixed, links = repaired(masked, other, links_by_position(masked.read, other))
        texts.append(restore(masked, fixed, links, write).text)
    return Draft(
        segment,
        draft.answer,
        draft.text,
        tuple(texts),
        to_read=masked.runs,
        to_target=restored.runs if complete else (),
        flags=frozenset({"placeholder_restored"} if inserted else ()),
    )


async def _copied(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft of a segment of which at most the terms and the arms of ICU messages are translated. An empty
    translation is less useful than its source."""
    segment = draft.segment
    text = with_translated_terms(segment.text, segment.terms, segment.spans)
    for message, translation in (await _messages(context, segment)).items():
        text = text.replace(message, translation)
    flagged = not draft.copied and ordinary_words(segment.text)
    bare = replace(segment, ids=(), masked=Masked())
    return Draft(bare, COPIED, targets=(text,), flags=frozenset({"copied"} if flagged else ()))


async def _messages(context: SentenceContext, segment: Segment) -> dict[str, str]:
    """Returns the ICU messages of a segment with their arms translated, by the messages."""
    if not segment.messages:
        return {}
    arms = {arm.content: arm for message in segment.messages for arm in message.segments}
    contexts = [replace(context, segment=arm, on_progress=None) for arm in arms.values()]
    drafts = await gather_or_cancel([arm.translate() for arm in contexts])
    targets = {content: draft.targets[0] for content, draft in zip(arms, drafts, strict=True)}
    return {
        message.text: message.join([targets[arm.content] for arm in message.segments]) for message in segment.messages
    }


def _written(segment: Segment, text: str) -> str:
    """Returns a translation with the capitals of its source."""
    if segment.masked.capitals:
        return text.upper()
    return with_capital_first_letter(text) if segment.small_first else text


def with_capital_first_letter(text: str) -> str:
    """Returns a text with its first letter as a capital, if this is one letter too and no symbol for a span is before it."""
    symbol = SYMBOL.search(text)
    for i, character in enumerate(text[: symbol.start()] if symbol else text):
        if character.isalpha():
            capital = character.upper()
            return text[:i] + capital + text[i + 1 :] if len(capital) == 1 else text
    return text


async def _without_stand_ins(context: SentenceContext, segment: Segment) -> Draft:
    """Returns a translation without the names or numbers that stand for spans: where one is missing, the model may have
    written another one."""
    capitals = segment.masked.capitals
    bare = mask(text_to_read(segment.text, segment.spans, capitals), segment.spans, capitals=capitals)
    segment = replace(segment, masked=bare, ids=context.leg.encode_ids(bare.read))
    return await glossary_terms.apply(context, await reranking.apply(context, await context.decode(segment)))


def _lacks_stand_ins(segment: Segment) -> bool:
    """Returns whether a span that stands for a word of the segment was taken out of the text that the model read."""
    words = sum(span.role in WORDS for span in segment.spans)
    return words > len(segment.masked.stand_ins)


def _needs_links(masked: Masked) -> bool:
    """Returns whether a mark is between words, so that its place depends on the links. Few words give little order to
    many marks, which are placed by position."""
    if len(masked.marks) > len(WORD.findall(masked.read)):
        return False
    end = len(masked.read.rstrip())
    return any(mark.span[1] > 0 and mark.span[0] < end and mark.span != (0, end) for mark in masked.marks)
