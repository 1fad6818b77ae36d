"""What a model cannot be trusted with inside a sentence: addresses, emoji, numbers, foreign scripts, capitals.

Addresses, emoji and numbers that a translation lost, and whatever the model's vocabulary can only spell in bytes, are taken out
of the sentence before the model reads it and put back where the words around them went. A sentence in capitals is read
in small letters and written in capitals again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from model.tokenizer import Encoding
from server.text.markup_projection import Link, Mark, place_marks
from server.text.segmentation import Span
from server.text.unicode_scripts import ADDRESS, may_hold_address, script_of, scripts_of

EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u20e3\u200d\U000e0020-\U000e007f]+"
)
WORD = re.compile(r"\w+")
CAPITALS = re.compile(r"\w*[^\W\d_]{2}\w*")
# A4, COVID-19, sha256; report.pdf, example.org; and words so long that they are none.
NAME = re.compile(
    r"(?<![\w@./\\-])(?:[\w-]+(?:\.[\w-]+)*\."
    r"(?:com|org|net|eu|uk|edu|gov|pdf|txt|docx?|xlsx?|pptx?|od[tsp]|csv|zip|png|jpe?g|gif|svg|html?|xml|json)"
    r"|[^\W\d_]\w*-?\d\w*|\w{40,})(?!\w)"
)
DIGIT = re.compile(r"\d")
CLOSING = ".,;:!?)]}\"'»”’…"
"""Marks after an address that belong to the sentence."""


def do_not_translate_spans(text: str) -> list[Span]:
    """Parts of a text that every translation of it has to hold as they are: addresses, emoji, names of files and things."""
    found = [] if text.isascii() else [found.span() for found in EMOJI.finditer(text)]
    for address in ADDRESS.finditer(text) if may_hold_address(text) else ():
        start = address.start()
        found.append((start, start + len(address[0].rstrip(CLOSING))))
    if may_hold_name(text):
        found += [name.span() for name in NAME.finditer(text)]
    return merge_spans(found)


def may_hold_name(text: str) -> bool:
    """False where `NAME` cannot match: far quicker to tell than to search for it."""
    return "." in text[:-1] or DIGIT.search(text) is not None or any(len(word) >= 40 for word in text.split())


def foreign_script_spans(text: str, language: str) -> list[Span]:
    """Words in letters that the language is not written with."""
    scripts = scripts_of(language)
    return [
        word.span()
        for word in WORD.finditer(text)
        if (letters := [script for character in word[0] if (script := script_of(character))])
        and not any(script in scripts for script in letters)
    ]


def byte_fallback_spans(text: str, language: str, encoding: Encoding) -> list[Span]:
    """Emoji and foreign words that the vocabulary can only spell in bytes."""
    spelled = [
        offset for piece, offset in zip(encoding.pieces, encoding.offsets, strict=True) if piece.startswith("<0x")
    ]
    if not spelled:
        return []
    candidates = merge_spans([found.span() for found in EMOJI.finditer(text)] + foreign_script_spans(text, language))
    return [(start, end) for start, end in candidates if any(low < end and start < high for low, high in spelled)]


def mask(text: str, spans: Sequence[Span]) -> tuple[str, tuple[Mark, ...]]:
    """The text without the spans, and each span, with the white space before it, as a mark at its place."""
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
    """The translation of `read`, passed through `write`, with every mark that was taken out of the text."""
    return place_marks(marks, read, target, links, write)


def is_all_caps(text: str) -> bool:
    """Whether a text is a phrase in capitals, more than an abbreviation or two."""
    return text.isupper() and len(CAPITALS.findall(text)) >= 2 and sum(map(len, CAPITALS.findall(text))) >= 6


def to_sentence_case(text: str) -> str:
    """A phrase in capitals as an ordinary sentence, as far as that can be told."""
    return re.sub(r"\bi\b", "I", text[:1] + text[1:].lower())


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, overlapping ones as one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        elif start < end:
            result.append((start, end))
    return result
