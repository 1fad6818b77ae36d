"""Gold word alignments: file readers, detokenisation, the alignment error rate, and inline tags that
are around the words which the alignment links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.analysis.attention_alignment import Link, word_spans
from server.text.projection import SpanProjection
from server.text.spans import Span

Links = set[Link]
LONGEST = 3
"""Most words of a tag."""
Tag = tuple[Span, Span]
"""Characters of the source and of the translation."""

_TIGHT_LEFT = re.compile(r"[.,;:!?%)\]»]+|'\w*|n't")
_TIGHT_RIGHT = frozenset("([«$")
_ELIDED = frozenset("le je me te se ne de que ce jusque lorsque puisque quoique".split())
_VOWEL = re.compile(r"[aeiouyhàâéèêëîïôöùûœæ]", re.IGNORECASE)
_NO_ELISION = re.compile(
    r"haut|hauss|hasard|héros$|huit|hont|hain|hors|holland|hall|halt|handicap|hiérarch|heurt|hon\.|onz|oui"
)
_FUSED = {
    ("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux",
    ("de", "lequel"): "duquel", ("de", "lesquels"): "desquels", ("de", "lesquelles"): "desquelles",
    ("à", "lequel"): "auquel", ("à", "lesquels"): "auxquels", ("à", "lesquelles"): "auxquelles",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GoldPair:
    """Two tokenised sentences and their links (first, second) with indices from 0; `possible`
    includes `sure`."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, slots=True)
class Written:
    """A detokenised sentence. `spans` are the character ranges of its words; `tokens` are the
    indices of the tokens of each word: one, or two for French contractions ("du" for "de le")."""

    text: str
    spans: tuple[tuple[int, int], ...]
    tokens: tuple[tuple[int, ...], ...]


def of_tokens(links: Iterable[Link], first: Written, second: Written) -> Links:
    """Converts links between words to links between tokens. Two words that are linked to a French
    contraction are linked to its two tokens in their order ("of the" to "de le", written "du")."""
    pairs, found = set(links), set()
    for a, b in pairs:
        ours, theirs = first.tokens[a], second.tokens[b]
        linked = sorted(i for i, j in pairs if j == b)
        chosen = theirs[linked.index(a)] if len(theirs) == len(linked) > 1 else None
        found |= {(i, j) for i in ours for j in theirs if chosen in (None, j)}
    return found


def own_words(sentence: Written) -> Written:
    """Returns a sentence with the words that the server finds in its text, each with the tokens of
    the gold words that it overlaps."""
    found = word_spans(sentence.text)
    return Written(
        sentence.text,
        tuple(found),
        tuple(
            tuple(
                token
                for (start, end), tokens in zip(sentence.spans, sentence.tokens, strict=True)
                if start < last and begin < end
                for token in tokens
            )
            for begin, last in found
        ),
    )


def written(tokens: Sequence[str], language: str) -> Written:
    """Detokenises a sentence: no space before a comma, a capital at the start, and in French the
    elisions and contractions that the gold tokens undo ("le argent de les" is "l'argent des")."""
    text, glued = "", True
    spans: list[tuple[int, int]] = []
    numbers: list[tuple[int, ...]] = []
    at = 0
    while at < len(tokens):
        before, now, after = (
            tokens[at - 1] if at else "",
            tokens[at],
            tokens[at + 1] if at + 1 < len(tokens) else "",
        )
        count, word, elided = _french(tokens, at) if language == "fr" else (1, now, False)
        hyphen = now == "-" and before[-1:].isalnum() and after[:1].isalnum()
        if not (glued or hyphen or _TIGHT_LEFT.fullmatch(word) or before in _TIGHT_RIGHT):
            text += " "
        word = word if text else word[:1].upper() + word[1:]
        spans.append((len(text), len(text) + len(word)))
        numbers.append(tuple(range(at, at + count)))
        text, glued, at = text + word, elided or hyphen, at + count
    return Written(text, tuple(spans), tuple(numbers))


def _french(tokens: Sequence[str], at: int) -> tuple[int, str, bool]:
    """Returns the number of tokens from `at` that form one word, the word, and whether it is joined
    to the next."""
    token, after, third = (tokens[i] if i < len(tokens) else "" for i in (at, at + 1, at + 2))
    fused = _FUSED.get((token.lower(), after))
    if fused and not (after == "le" and _elides(after, third)):
        return 2, fused.capitalize() if token[0].isupper() else fused, False
    return (1, token[:-1] + "'", True) if _elides(token, after) else (1, token, False)


def _elides(token: str, after: str) -> bool:
    return (
        token.lower() in _ELIDED
        and _VOWEL.match(after) is not None
        and _NO_ELISION.match(after.lower()) is None
    )


def read_hansards(folder: Path) -> list[GoldPair]:
    """Reads `hansards.en-fr.txt` and `.gold`: sure links `i-j` and possible links `ipj` with
    indices from 1."""
    pairs = []
    texts = (folder / "hansards.en-fr.txt").read_text(encoding="utf-8").splitlines()
    golds = (folder / "hansards.en-fr.gold").read_text(encoding="utf-8").splitlines()
    for text, gold in zip(texts, golds, strict=True):
        english, french = text.split("|||")
        links = [re.fullmatch(r"(\d+)([-p])(\d+)", link) for link in gold.split()]
        found = [(int(link[1]) - 1, int(link[3]) - 1, link[2]) for link in links if link]
        sure = frozenset((i, j) for i, j, kind in found if kind == "-")
        pairs.append(
            GoldPair(
                tuple(english.split()),
                tuple(french.split()),
                sure,
                sure | {(i, j) for i, j, _ in found},
            )
        )
    return pairs


def read_xl_wa(folder: Path) -> list[GoldPair]:
    """Reads `xl-wa-dev.en-es.tsv`: english TAB spanish TAB i-j ..., sure links with indices from
    0."""
    pairs = []
    for line in (folder / "xl-wa-dev.en-es.tsv").read_text(encoding="utf-8").splitlines():
        english, spanish, gold = line.split("\t")
        links = frozenset((int(i), int(j)) for i, j in (link.split("-") for link in gold.split()))
        pairs.append(GoldPair(tuple(english.split()), tuple(spanish.split()), links, links))
    return pairs


SETS = {"hansards": (read_hansards, "en", "fr"), "xl-wa": (read_xl_wa, "en", "es")}


def quality(found: Sequence[Links], gold: Sequence[GoldPair]) -> dict[str, float]:
    """Returns AER, precision on possible links and recall of sure links, in percent (Och & Ney
    2003)."""
    sure = sum(len(pair.sure) for pair in gold)
    links = sum(map(len, found))
    in_sure = sum(len(a & pair.sure) for a, pair in zip(found, gold, strict=True))
    in_possible = sum(len(a & pair.possible) for a, pair in zip(found, gold, strict=True))
    return {
        "aer": 100 * (1 - (in_sure + in_possible) / max(1, links + sure)),
        "precision": 100 * in_possible / max(1, links),
        "recall": 100 * in_sure / max(1, sure),
    }


def tags(pair: GoldPair, source: Written, target: Written) -> list[Tag]:
    """Returns the first and the last run of source words, of up to LONGEST, that a gold alignment
    links to a run of the translation, and this to no other word."""
    found = []
    for first in range(len(source.spans)):
        for end in range(first + LONGEST, first, -1):
            ours = {token for word in source.tokens[first:end] for token in word}
            theirs = {j for i, j in pair.sure if i in ours}
            within = [set(word) <= theirs for word in target.tokens]
            run = [number for number, is_within in enumerate(within) if is_within]
            whole = (
                bool(run)
                and run[-1] - run[0] + 1 == len(run)
                and theirs == {t for n in run for t in target.tokens[n]}
            )
            linked = (
                ours
                == {i for i, j in pair.sure if j in theirs}
                == {i for i, j in pair.possible if j in theirs}
            )
            if whole and linked and end <= len(source.spans):
                spans = source.spans[first][0], source.spans[end - 1][1]
                found.append((spans, (target.spans[run[0]][0], target.spans[run[-1]][1])))
                break
    return [
        tag
        for tag in dict.fromkeys([*found[:1], *found[-1:]])
        if tag is found[0] or tag[0][0] >= found[0][0][1]
    ]


def right(links: Links, source: Written, target: Written, tagged: Sequence[Tag]) -> bool:
    """Returns whether all tags of a sentence are placed as the gold alignment has them."""
    spans = [(source.spans[i], target.spans[j]) for i, j in sorted(links)]
    projection = SpanProjection(source.text, target.text, spans)
    return all(projection.project(ours) == theirs for ours, theirs in tagged)
