"""Masks the parts of a sentence that a model does not translate reliably, and restores them in the translation.

Two kinds of spans are masked: do_not_translate spans (addresses, emoji, names of files and things, and numbers) that a
translation has lost, and byte-fallback spans, which the vocabulary can only spell in bytes. A restored span follows the
words around it. A sentence in capitals is translated in sentence case and written in capitals again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from model.tokenizer import Encoding
from server.text.markup_projection import Link, Mark, project_marks, with_marks
from server.text.segmentation import Span
from server.text.unicode_scripts import ADDRESS, may_hold_address, script_of, scripts_of

EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u20e3\u200d\U000e0020-\U000e007f]+"
)
WORD = re.compile(r"\w+")
CAPITALS = re.compile(r"\w*[^\W\d_]{2}\w*")
# A4, COVID-19, sha256; report.pdf, example.org; and strings of 40 characters and more, which are not words.
NAME = re.compile(
    r"(?<![\w@./\\-])(?:[\w-]+(?:\.[\w-]+)*\."
    r"(?:com|org|net|eu|uk|edu|gov|pdf|txt|docx?|xlsx?|pptx?|od[tsp]|csv|zip|png|jpe?g|gif|svg|html?|xml|json)"
    r"|[^\W\d_]\w*-?\d\w*|\w{40,})(?!\w)"
)
DIGIT = re.compile(r"\d")
CLOSING = ".,;:!?)]}\"'»”’…"
"""Characters after an address that belong to the sentence."""
_MERGED_WORDS = re.compile(r"[^\W_]\0[^\W_]|\d[.,'’]?\0[.,'’]?\d")
"""Two words or two numbers that would become one if the text before and after the \\0 were joined."""


def do_not_translate_spans(text: str) -> list[Span]:
    """Returns the spans that every translation contains unchanged: addresses, emoji, names of files and things."""
    found = [] if text.isascii() else [found.span() for found in EMOJI.finditer(text)]
    for address in ADDRESS.finditer(text) if may_hold_address(text) else ():
        start = address.start()
        found.append((start, start + len(address[0].rstrip(CLOSING))))
    if may_hold_name(text):
        found += [name.span() for name in NAME.finditer(text)]
    return merge_spans(found)


def may_hold_name(text: str) -> bool:
    """Returns False where `NAME` cannot match. This test is much faster than the search."""
    return "." in text[:-1] or DIGIT.search(text) is not None or any(len(word) >= 40 for word in text.split())


def foreign_script_spans(text: str, language: str) -> list[Span]:
    """Returns the words in letters that the language is not written with."""
    scripts = scripts_of(language)
    return [
        word.span()
        for word in WORD.finditer(text)
        if (letters := [script for character in word[0] if (script := script_of(character))])
        and not any(script in scripts for script in letters)
    ]


def byte_fallback_spans(text: str, language: str, encoding: Encoding) -> list[Span]:
    """Returns the emoji and the words in a foreign script that the encoding of `text` spells in bytes."""
    spelled = [
        offset for piece, offset in zip(encoding.pieces, encoding.offsets, strict=True) if piece.startswith("<0x")
    ]
    if not spelled:
        return []
    candidates = merge_spans([found.span() for found in EMOJI.finditer(text)] + foreign_script_spans(text, language))
    return [(start, end) for start, end in candidates if any(low < end and start < high for low, high in spelled)]


def mask(text: str, spans: Sequence[Span]) -> tuple[str, tuple[Mark, ...]]:
    """Returns the text without the spans, and a mark for each span with the white space before it."""
    parts: list[str] = []
    marks: list[Mark] = []
    done = length = 0
    for number, (start, end) in enumerate(spans):
        before = text[done:start]
        kept = before.rstrip()
        after = len(text[end:]) - len(text[end:].lstrip()) if not parts and not kept else 0
        parts.append(kept)
        length += len(kept)
        marks.append(Mark(before[len(kept) :] + text[start : end + after], "", (length, length), number, number))
        done = end + after
    parts.append(text[done:])
    return "".join(parts), tuple(marks)


def restore(
    marks: Sequence[Mark], read: str, target: str, links: Sequence[Link], write: Callable[[str], str] = str
) -> str:
    """Returns the translation of the masked text `read`, passed through `write`, with every masked span. A space is
    added where a span would otherwise merge with a word or a number."""
    parts = with_marks(project_marks(marks, read, target, links), target, write)
    if read == target:
        return "".join(part for part, _ in parts)
    text, after_mark = "", False
    for part, is_mark in parts:
        if not part:
            continue
        if (is_mark or after_mark) and _MERGED_WORDS.search(f"{text[-2:]}\0{part[:2]}"):
            text += " "
        text += part
        after_mark = is_mark
    return text


def is_all_caps(text: str) -> bool:
    """Returns whether a text is a phrase in capitals, as opposed to one or two abbreviations."""
    return text.isupper() and len(CAPITALS.findall(text)) >= 2 and sum(map(len, CAPITALS.findall(text))) >= 6


def to_sentence_case(text: str) -> str:
    """Returns a phrase in capitals with only the first letter, and the English word I, in capitals."""
    return re.sub(r"\bi\b", "I", text[:1] + text[1:].lower())


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """Returns the spans in order, with overlapping spans merged."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        elif start < end:
            result.append((start, end))
    return result
