"""Finds the characters that the vocabulary of a model cannot write.

A run of grapheme clusters (UAX #29) becomes a code if the tokenizer spells it in bytes, has no
piece for it, or returns something else than its compatibility form (NFKC). Marks belong to their
letter, and letters to their word.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from unicodedata import category, normalize

import regex

from model.tokenizer import Tokenizer
from server.kept import kept
from server.text.spans import blanked, grown
from server.text.tagged import AND, Code, Tagged, Word

CLUSTER = regex.compile(r"\X")
OPENING, CLOSING = "\"'([{<¿¡„“‘«‚", "\"'.,;:!?)]}>…”’“»"
PARTNERS = {")": "(", "]": "[", "}": "{", ">": "<", '"': '"'}
_OPERAND = r"([A-Za-z]|[+-]?\d[\d.,%]*(?<![.,])[\"'′″]?)"
OPERAND = regex.compile(rf"[ ]{_OPERAND}(?![\w-]|['’]\w)")
OPERAND_END = regex.compile(rf"(?<![\w-]|\w['’]){_OPERAND}[ ]$")
LONGEST_PART = 100


def with_unwritable(tagged: Tagged, tokenizer: Tokenizer, readable: Callable[[str], str]) -> Tagged:
    """Returns a sentence with a code for each run, spaces included, that the vocabulary cannot write.
    A run with a letter or between two words stands for a word. `readable` normalises a text as the
    model reads it."""
    text = tagged.text
    plain = blanked(text, [code[:2] for code in tagged.codes])
    runs = [_widened(plain, run) for run in _runs(plain, tokenizer, readable)]
    return _with_runs(tagged, plain, _joined(plain, runs)) if runs else tagged


def may_lack(text: str, tokenizer: Tokenizer, readable: Callable[[str], str]) -> bool:
    """Returns False, fast, if `with_unwritable` finds nothing outside ASCII."""
    return not text.isascii() and not all(
        character.isascii() or _writes(tokenizer, readable(character)) for character in set(text)
    )


def _runs(text: str, tokenizer: Tokenizer, readable: Callable[[str], str]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for found in CLUSTER.finditer(text):
        cluster = found[0].lstrip()  # a mark after a space is a cluster with it
        if (cluster.isascii() and cluster.isalnum()) or _writes(tokenizer, readable(cluster)):
            continue
        start = found.end() - len(cluster)
        if runs and start == runs[-1][1]:
            runs[-1] = runs[-1][0], found.end()
        else:
            runs.append((start, found.end()))
    return runs


def _widened(text: str, run: tuple[int, int]) -> tuple[int, int]:
    """Returns a run with the word around it. A sign next to a word stays alone (house†). In any other
    token the whole token is the run (5°C, €20, p<0.05, R&D), and between short operands these
    belong to it (a && b)."""
    start, end = run
    if any(map(_in_word, text[start:end])):
        return grown(text, start, end, _in_word, start - LONGEST_PART)
    low, high = grown(
        text, start, end, lambda sign: not sign.isspace(), start - LONGEST_PART, end + LONGEST_PART
    )
    core = text[low:high].lstrip(OPENING)
    low = min(high - len(core), start)
    high = max(core_end(text, low, high), end)
    if low == start and high == end:
        operands = (
            OPERAND_END.search(text, max(0, start - LONGEST_PART), start),
            OPERAND.match(text, end),
        )
        return (operands[0].start(1), operands[1].end(1)) if operands[0] and operands[1] else run
    is_alone = all(not part or _is_apart(part) for part in (text[low:start], text[end:high]))
    is_key = text[low:end] == "&" and high > end + 1 and text[end:high].isalpha()
    return run if is_alone or is_key else (low, high)


def _in_word(character: str) -> bool:
    return category(character)[0] in "LMN" or character in "\u200c\u200d"


def _is_apart(word: str) -> bool:
    """Returns whether a sign next to a word is no part of it, unlike in units and abbreviations."""
    return (
        len(word) > 2
        and not word.isupper()
        and all(sign in "'’-" or category(sign)[0] in "LM" for sign in word)
    )


def core_end(text: str, start: int, end: int) -> int:
    """Returns the end of a token without the punctuation after it. A bracket or quote that the token
    opens belongs to it."""
    while end > start and (sign := text[end - 1]) in CLOSING:
        opening = PARTNERS.get(sign, "")
        opened = text.count(opening, start, end - 1) if opening else 0
        if opened > (0 if opening == sign else text.count(sign, start, end - 1)):
            break
        end -= 1
    return end


def _joined(text: str, runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in runs:
        if joined and (start <= joined[-1][1] or text[joined[-1][1] : start].isspace()):
            joined[-1] = min(start, joined[-1][0]), max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _with_runs(tagged: Tagged, plain: str, runs: Sequence[tuple[int, int]]) -> Tagged:
    text = tagged.text
    codes = list(tagged.codes)
    cuts = sorted({place for code in codes for place in (code.start, code.end)})
    for low, high in runs:
        for left, right in pairwise(
            (low, *cuts[bisect_right(cuts, low) : bisect_left(cuts, high)], high)
        ):
            if not (shown := plain[left:right].strip()):
                continue
            start = plain.index(shown, left)
            end = start + len(shown)
            between = text[:start].rstrip()[-1:].isalnum() and text[end:].lstrip()[:1].isalnum()
            word = any(map(_in_word, shown)) or (
                between and text[start - 1].isspace() and text[end].isspace()
            )
            kind = AND if word and shown == "&" else "unwritable"
            role: Word = "name" if word and kind != AND else ""
            codes.append(Code(start, end, word=role, kind=kind, equiv=shown))
    codes.sort(key=lambda code: (code.start, code.end))
    return Tagged(text, tuple(codes), tagged.escape)


@kept(100_000)
def _writes(tokenizer: Tokenizer, cluster: str) -> bool:
    """Returns whether a vocabulary writes a cluster, its compatibility form, or its small letter
    without marks. Öl and Noël are words even if a vocabulary lacks Ö and ë."""
    if not cluster or cluster.isspace():
        return True
    letter = normalize("NFD", cluster)[0].lower()
    if letter != cluster and letter.isalpha() and _writes(tokenizer, letter):
        return True
    spelled = tokenizer.spelled(cluster)
    forms = {"".join(normalize(name, cluster).split()) for name in ("NFC", "NFKC", "NFD", "NFKD")}
    return spelled is not None and "".join(spelled.split()) in {*forms, cluster}
