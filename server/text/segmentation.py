"""Splits a text into sentences. The text between two of them is copied to the translation."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

from sentencex import segment

from server.kept import kept
from server.text.languages import primary_subtag
from server.text.spans import Span, blanked, span_around

Split = Literal["all", "punctuation", "none"]
"""Where a text is split: at line ends and after sentences; after sentences (line ends in HTML are
spaces); or nowhere."""

# Line and paragraph ends, tabs (columns) and control characters.
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
LINE_ENDS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x85", " "))
# Further ends of sentences in laid out lines: columns, rulers, colors of a terminal.
LAYOUT = re.compile(
    rf" {{3,}}|(?<=[\])_\[(]) {{2,}}|(?<=\S) {{2,}}(?=[()\[\]#☐☑]|(?:[^\s]| (?! )){{1,40}} "
    rf"{{3}})|(?<!\.)\.{{4,}}+(?= ?\d)"
    rf"|(?<!\S)(?:([-=:*+~])\1{{2,}}(?!\S)|[-=]{{4,}}(?=\w))|(?<=\w)[-=]{{4,}}(?!\S)|\x1b\[[0-?]*[ "
    rf"-/]*[@-~]|{BREAKS.pattern}"
)
LAID_OUT = ("  ", "....", "\x1b", *[3 * sign for sign in "-=:*+~"])
# The label of a list item, a line of dialogue, a comment or a heading. Groups: a label that may be
# an initial (B. Franklin), one that may be a part of a sentence (§ 5 BGB), the word after it with
# its article.
_NUMBER = r"\d{1,4}(?:[.–-]\d{1,4})*[a-z]?"
_NUMBERED = rf"(?:§{{1,2}}|#|(?:Abb|Abs|Art|Cap|Chap?|Fig|Kap|No|Nr|Núm|Pos|Sec[ct]?|Tab)\.|N[°º.]º?)[^\S\n]?{_NUMBER}\.?"
_ARTICLES = "the a an your der den die das du ein eine la las le les un une el los una".split()
BULLET = re.compile(
    r"(?:[-*+•‣◦▪●○·–—①-⓿❶-➓]|--|\[[ "
    r"xX]\]|>{1,3}|[-=]>|#{1,6}|//[/!]?|/\*+|[;%$](?=\s+[^\W\d_])|[QA]:"
    rf"|(?:TODO|FIXME)(?:\(\w+\))?:|(?:\d{{1,3}}|{_NUMBERED}):(?=\s+[^\W\d_])|\d{{1,2}}/(?=\s)|\d{{1,3}}\s[-–—](?=\s+[A-ZÀ-Þ]\w)"
    r"|(?!v\.\s+Chr)(?:[a-h]|[ivx]{1,4})\.(?=[^\S\n]+[^\W\d_][^\W_]+(?!\.|\w))"
    r"|\d{1,2}(?:\.\d{1,2}){1,3}(?=[^\S\n]+(?:A|[A-Z][a-z]{2,})(?![\w/]))"
    rf"|(?:((?:[A-LN-Z]|[IVX]{{2,5}})\.|[A-Z]\.\d{{1,2}}(?:\.\d{{1,2}})*|\d{{1,2}}\.[a-z]|[A-Z]\s[-–—])|({_NUMBERED}|\d{{1,2}}\.?[°º]))"
    rf"(?=[^\S\n]+((?:A|[A-ZÀ-Þ][a-zß-ÿ]+)(?![\w.])(?:\s(?:{'|'.join(_ARTICLES)})\s)?)))[^\S\n]+(?=\S)"
)
# The label of an item within a line: a) red b) green.
LABEL = re.compile(
    r"(?<![^\s.:;,])(?:\[\d{1,3}\]|\(?(?:[a-z]|[ivx]{1,4}|\d{1,2}(?:\.?[a-z])?)\.?\)|\d{1,3}\])(?:[^\S\n]+(?=\w)|(?=(?-i:[A-ZÀ-Þ][a-zß-ÿ])))",
    re.IGNORECASE,
)
_CUT_NAME = re.compile(r"(?<![\w.])[a-z_]\w+(?:\.[^\W\d]\w+)+\.$|(?<!\S)\.$")
_GERMAN_ORDINAL = re.compile(
    r"(?:\b(?:i[mn]s?|am|vom|zu[mr]|d(?:as|ie|e[mnrs])|(?:[kdms]?ein|ihr|jed|dies)(?:e[mnrs]?)?)\s"
    r"|\d\.?\s?(?:und|bis|[/–-])\s?)\d{1,3}\.\s$",
    re.IGNORECASE,
)
_ONE_SENTENCE = re.compile(r"[^.!?:;)\u0250-\U0010ffff]*+[.!?]?")
_UNSPACED = 40
_WINDOW, _UNSPACED_WINDOW = 4_000, 1_000
"""Characters of a line that are split at once; the second for scripts without spaces."""

# Conjunctions and relative words in English, German, French and Spanish.
_CLAUSE = (
    r"(?=(?:and|or|but|because|which|who|whose|where|when|while|although|though|if|since|so "
    r"that|und|aber|oder|sondern|denn"
    r"|weil|dass|wenn|obwohl|während|damit|wobei|et|ou|mais|car|parce|qui|dont|où|alors|lorsque|puisque|quand|si|y|o|pero|sino"
    r"|porque|cuando|mientras|aunque)\b)"
)
_LONGEST_CLAUSE_WORD = 10
# Where an over-long sentence is split, the best kinds first.
CUTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[.!?…。！？]+[\"'”’»)\]]*\s*",
        r"[;:—–；：]\s*",
        rf"[,،]\s+{_CLAUSE}",
        r"[,،，、]\s*",
        rf"\s+{_CLAUSE}",
        r"\s+",
    )
)


def split_sentences(
    text: str,
    language: str,
    split: Split = "all",
    is_ordinary: Callable[[str], bool] = lambda word: False,
) -> list[Span]:
    """Returns the sentences of a text in order, without surrounding white space. `language` selects
    the rules for abbreviations. `is_ordinary` says whether a word with a capital is not a name."""
    if split == "none":
        return list(_trimmed(text, 0, len(text)))
    breaks = LAYOUT if split == "all" and any(map(text.__contains__, LAID_OUT)) else BREAKS
    subtag = primary_subtag(language)
    laid_out = text if split == "all" else text.translate(LINE_ENDS)
    cuts = [place for found in breaks.finditer(laid_out) for place in found.span()]
    edges = [0, *cuts, len(text)]
    lines = [
        line
        for start, end in zip(edges[::2], edges[1::2], strict=True)
        for line in _trimmed(text, start, end)
    ]
    found = [BULLET.match(text, *line) for line in lines] if len(lines) > 1 else ()
    is_list = len({label[1] or label[2] for label in found if label and label[3]}) > 1

    def begins(start: int, end: int) -> int:
        """Returns where an item begins after its labels. Ambiguous labels count in a list."""
        while found := BULLET.match(text, start, end):
            word = found[3] or ""
            is_label = not word or is_list or (found[2] and subtag != "de")
            if not is_label and word.split()[-1].lower() not in _ARTICLES and not is_ordinary(word):
                break
            start = found.end()
        return start

    spans: list[Span] = []
    for line in lines:
        for start, end in _items(text, line):
            spans += _sentences_of_line(text, begins(start, end), end, subtag)
    return spans


def _items(text: str, line: Span) -> Iterator[Span]:
    """Yields the items of a line that begins with a label, or the line. After a label in brackets,
    further labels are those in brackets without a space after them."""
    start, end = line
    first = LABEL.match(text, start, end)
    if first is None:
        yield line
        return
    further = [first, *LABEL.finditer(text, first.end(), end)]
    if text[start] in "([":  # (1)One (2)Two
        touching = [each for each in further if each[0][0] in "([" and each[0][-1] in ")]"]
        further = touching if first in touching else [first]
    else:
        further = [each for each in further if each[0][0] not in "(["]
    labels = [*[label.span() for label in further], (end, end)]
    for label, following in pairwise(labels):
        yield from _trimmed(text, label[1], following[0])


def _sentences_of_line(text: str, start: int, end: int, language: str) -> list[Span]:
    parts = _parts_of_line(text[start:end], language)
    if len(parts) < 2:
        return [(start, end)]
    spans: list[Span] = []
    for part in _without_cut_names(parts, language == "de"):
        spans += _trimmed(text, start, start + len(part))
        start += len(part)
    return spans


@kept(64)
def _parts_of_line(line: str, language: str) -> list[str]:
    """Returns the sentences of a line. A long line is read in windows, because the library takes
    quadratic time without spaces."""
    if _ONE_SENTENCE.fullmatch(line):
        return [line]
    size = _WINDOW if line.count(" ") * _UNSPACED > len(line) else _UNSPACED_WINDOW
    parts, begin, continues = [""], 0, True
    while begin < len(line):
        window = line[begin : begin + size]
        if not window.isprintable():  # the library fails at spaces of several bytes
            window = re.sub(r"\s", " ", window)
        found = segment(language, window)
        if "".join(found) != window:  # normalised
            found = [window]
        whole = len(found) < 2
        if not whole and begin + len(window) < len(line):
            found.pop()
        begin += sum(map(len, found))
        parts += [parts.pop() + found[0], *found[1:]] if continues else found
        continues = whole
    return parts


def _without_cut_names(parts: Sequence[str], german: bool) -> Iterator[str]:
    whole: list[str] = []
    for part in parts:
        last = whole[-1] if whole else ""
        is_cut = last[-1:] == "." and _CUT_NAME.search(last)
        is_cut = is_cut or (german and _GERMAN_ORDINAL.search(last))
        if last and part[0] not in ",:;ºª" and not is_cut:
            yield "".join(whole)
            whole = []
        whole.append(part)
    yield "".join(whole)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    if part := text[start:end].lstrip():
        yield end - len(part), end - len(part) + len(part.rstrip())


def split_long_sentence(
    text: str, starts: Sequence[int], limit: int, whole: Sequence[Span] = ()
) -> list[Span]:
    """Splits an over-long sentence, whose tokens begin at `starts`, into spans of at most `limit`
    tokens: in the last two thirds, at the best of `CUTS`, or between two tokens, never within the
    spans `whole`. Raises ValueError for a limit below 1."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    text = blanked(text, whole, "_")
    spans: list[Span] = []
    begin, token = 0, 0
    while len(starts) - token > limit:
        latest = max(starts[token + limit], begin + 1)
        earliest = max(starts[token + limit // 3], begin + 1)
        cut = _best_cut(text, earliest, latest, CUTS, _LONGEST_CLAUSE_WORD)
        before, after = span_around(cut, whole)
        end = before if before > begin else after
        spans += _trimmed(text, begin, end)
        begin = end
        token = bisect_left(starts, end)
        # the token before starts with the white space at the split
        if token == len(starts) or starts[token] > end:
            token -= 1
    spans += _trimmed(text, begin, len(text))
    return spans


def goes_on(part: str, following: str) -> bool:
    """Returns whether two parts belong to one sentence: the second begins with a small letter, or
    the first has no mark at its end."""
    return following[:1].islower() or part.rstrip("\"'”’»)]")[-1:] not in ".!?…:。！？："


def cut_text(text: str, limit: int) -> list[str]:
    """Cuts a text into pieces of at most `limit` characters, in the last two thirds of each at a line
    end, the end of a sentence or a space. Raises ValueError for a limit below 1."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    pieces: list[str] = []
    begin = 0
    while len(text) - begin > limit:
        end = _best_cut(text, begin + limit // 3 + 1, begin + limit, (BREAKS, CUTS[0], CUTS[-1]), 1)
        pieces.append(text[begin:end])
        begin = end
    return [*pieces, text[begin:]]


def _best_cut(
    text: str, earliest: int, latest: int, kinds: Sequence[re.Pattern[str]], ahead: int = 0
) -> int:
    """Returns the end in [earliest, latest] of the last match of the first pattern that has one
    outside a word, or `latest`. The patterns see `ahead` characters more."""
    for pattern in kinds:
        for found in reversed([*pattern.finditer(text, earliest - 1, latest + ahead)]):
            end = found.end()
            is_within = text[end - 1] in ".,:–" and text[end : end + 1].isalnum()
            if earliest <= end <= latest and not is_within:
                return end
    return latest
