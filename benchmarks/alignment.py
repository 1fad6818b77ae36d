"""Word alignment by attention, against alignments made by people: AER, precision and recall of a model folder.

    python -m benchmarks.alignment --model weights/NAME --data DATA/alignments
    python -m benchmarks.alignment --model weights/NAME --data DATA/alignments --choose DATA/dev/tatoeba-dev.en-fr.tsv --write

A given pair is force-scored in both directions and its links are read off cross-attention. Which layer, heads and row do
it is chosen without gold alignments: those whose links agree most between the two directions of `--choose`. `--write`
stores the choice in the model folder, where the server finds it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks import report
from model.folder import ModelFolder, read_folder
from model.word_alignment import (
    FILE,
    AlignmentChoice,
    Link,
    Word,
    alignment_map,
    grow_diag,
    target_to_source,
    to_words,
    words,
)

_TIGHT_LEFT, _TIGHT_RIGHT = re.compile(r"[.,;:!?%)\]»]+"), frozenset("([«$")
Links = set[Link]


@dataclass(frozen=True, slots=True)
class GoldPair:
    """Two tokenised sentences and their links (first, second), counted from 0; `possible` includes `sure`."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, slots=True)
class Maps:
    """One direction of one pair: cross-attention (L, H, T, S) and the words of both sides; `numbers` maps each word to its
    place among the tokens (None for tags and ends)."""

    cross: NDArray[np.float32]
    source: tuple[Word, ...]
    target: tuple[Word, ...]
    source_numbers: tuple[int | None, ...]
    target_numbers: tuple[int | None, ...]

    def links(self, choice: AlignmentChoice) -> Links:
        """(source token, target token): each target token's best source token."""
        found = target_to_source(alignment_map(self.cross, choice), self.source, self.target)
        return {
            (i, j)
            for source, target in found
            if (i := self.source_numbers[source]) is not None and (j := self.target_numbers[target]) is not None
        }

    def soft(self, choice: AlignmentChoice, shape: tuple[int, int]) -> NDArray[np.float32]:
        """Weights between tokens, (source tokens, target tokens)."""
        by_word = to_words(alignment_map(self.cross, choice), self.target, self.source)
        soft = np.zeros(shape, dtype=np.float32)
        for t, j in enumerate(self.target_numbers):
            for s, i in enumerate(self.source_numbers):
                if i is not None and j is not None:
                    soft[i, j] += by_word[t, s]
        return soft


class Aligner:
    """Force-scores pairs of token lists with the model of a folder."""

    def __init__(self, folder: ModelFolder, threads: int) -> None:
        import torch

        from model.checkpoint import load_model

        torch.set_num_threads(threads)
        self.transformer = load_model(folder)
        self.tokenizer = folder.load_tokenizer()

    def maps(self, source: Sequence[str], target: Sequence[str], language: str) -> Maps:
        """Raises ValueError for a pair that is longer than the model reads."""
        from model.attention_maps import attention_maps

        text, spans = joined(source)
        encoding = self.tokenizer.encode(text, language)
        written, target_spans = joined(target)
        ids = self.tokenizer.encode_target(written)
        decoding = self.tokenizer.decode_pieces(ids)
        if decoding.text != written:  # normalised characters: places are those of what the model wrote
            target_spans = moved(target_spans, written, decoding.text)
        found = attention_maps(self.transformer, encoding.ids, ids)
        source_words = words(text, encoding.pieces, encoding.offsets, spans)
        target_words = words(decoding.text, decoding.pieces, decoding.offsets, target_spans)
        end = Word("</s>", len(decoding.text), len(decoding.text), (len(ids),))
        return Maps(
            found.cross, source_words, (*target_words, end), places(source_words, spans),
            (*places(target_words, target_spans), None),
        )


def joined(tokens: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The sentence as people write it, and the characters of each token."""
    text, spans = "", []
    for number, token in enumerate(tokens):
        tight = _TIGHT_LEFT.fullmatch(token) or (number and tokens[number - 1] in _TIGHT_RIGHT)
        if text and not tight:
            text += " "
        spans.append((len(text), len(text) + len(token)))
        text += token
    return text, spans


def moved(spans: list[tuple[int, int]], before: str, after: str) -> list[tuple[int, int]]:
    """Token places in a text whose characters were normalised: each token is looked for after the one before it."""
    found, at = [], 0
    for start, end in spans:
        token = before[start:end]
        place = after.find(token, at)
        place = at if place < 0 else place
        found.append((place, min(len(after), place + len(token))))
        at = found[-1][1]
    return found


def places(found: Sequence[Word], spans: Sequence[tuple[int, int]]) -> tuple[int | None, ...]:
    """Which token each word is."""
    numbers = {span: number for number, span in reversed(list(enumerate(spans)))}
    return tuple(numbers.get((word.start, word.end)) if not word.special else None for word in found)


def read_hansards(folder: Path) -> list[GoldPair]:
    """`hansards.en-fr.txt` and `.gold`: links `i-j` sure and `ipj` possible, counted from 1."""
    pairs = []
    texts = (folder / "hansards.en-fr.txt").read_text(encoding="utf-8").splitlines()
    golds = (folder / "hansards.en-fr.gold").read_text(encoding="utf-8").splitlines()
    for text, gold in zip(texts, golds, strict=True):
        english, french = text.split("|||")
        links = [re.fullmatch(r"(\d+)([-p])(\d+)", link) for link in gold.split()]
        found = [(int(link[1]) - 1, int(link[3]) - 1, link[2]) for link in links if link]
        sure = frozenset((i, j) for i, j, kind in found if kind == "-")
        pairs.append(
            GoldPair(tuple(english.split()), tuple(french.split()), sure, sure | {(i, j) for i, j, _ in found})
        )
    return pairs


def read_xl_wa(folder: Path) -> list[GoldPair]:
    """`xl-wa-dev.en-es.tsv`: english TAB spanish TAB i-j ..., counted from 0, all sure."""
    pairs = []
    for line in (folder / "xl-wa-dev.en-es.tsv").read_text(encoding="utf-8").splitlines():
        english, spanish, gold = line.split("\t")
        links = frozenset((int(i), int(j)) for i, j in (link.split("-") for link in gold.split()))
        pairs.append(GoldPair(tuple(english.split()), tuple(spanish.split()), links, links))
    return pairs


SETS = {"hansards": (read_hansards, "en", "fr"), "xl-wa": (read_xl_wa, "en", "es")}


def quality(found: Sequence[Links], gold: Sequence[GoldPair]) -> dict[str, float]:
    """AER, precision against possible links and recall of sure ones, in percent (Och & Ney 2003)."""
    sure = sum(len(pair.sure) for pair in gold)
    links = sum(map(len, found))
    in_sure = sum(len(a & pair.sure) for a, pair in zip(found, gold, strict=True))
    in_possible = sum(len(a & pair.possible) for a, pair in zip(found, gold, strict=True))
    return {
        "aer": 100 * (1 - (in_sure + in_possible) / max(1, links + sure)),
        "precision": 100 * in_possible / max(1, links),
        "recall": 100 * in_sure / max(1, sure),
    }


def symmetrized(forward: Maps, backward: Maps, choice: AlignmentChoice, shape: tuple[int, int]) -> dict[str, Links]:
    """Links (first, second) of one pair by every way of joining the two directions."""
    there = forward.links(choice)
    back = {(i, j) for j, i in backward.links(choice)}
    both = forward.soft(choice, shape) * backward.soft(choice, shape[::-1]).T
    best = {(int(both[:, j].argmax()), j) for j in range(shape[1])} | {(i, int(both[i].argmax())) for i in range(shape[0])}
    mutual = {(int(both[:, j].argmax()), j) for j in range(shape[1])} & {
        (i, int(both[i].argmax())) for i in range(shape[0])
    }
    return {
        "first to second": there,
        "second to first": back,
        "intersection": there & back,
        "grow-diag": grow_diag(there, back),
        "grow-diag-final": grow_diag(there, back, final=True),
        "product, mutual": mutual,
        "product, grow-diag": grow_diag(mutual, best),
    }


def choices(layers: int, heads: int) -> Iterator[AlignmentChoice]:
    """Every layer with all its heads, with one, and with two or three of them."""
    for layer in range(layers):
        for shift in (False, True):
            yield AlignmentChoice(layer=layer, heads=None, shift=shift)
            for size in range(1, min(3, heads - 1) + 1):
                for some in combinations(range(heads), size):
                    yield AlignmentChoice(layer=layer, heads=some, shift=shift)


def choose(pairs: Sequence[tuple[Maps, Maps]]) -> tuple[AlignmentChoice, float]:
    """The choice whose links agree most between the two directions, and their agreement (F1 in percent)."""
    layers, heads = pairs[0][0].cross.shape[:2]
    best: tuple[float, AlignmentChoice] | None = None
    for choice in choices(layers, heads):
        common = total = 0
        for forward, backward in pairs:
            there, back = forward.links(choice), {(i, j) for j, i in backward.links(choice)}
            common += len(there & back)
            total += len(there) + len(back)
        agreement = 200 * common / max(1, total)
        if best is None or agreement > best[0]:
            best = agreement, choice
    assert best is not None
    return best[1], best[0]


def both_ways(aligner: Aligner, first: Sequence[str], second: Sequence[str], languages: tuple[str, str]) -> tuple[Maps, Maps]:
    """Maps of first to second and of second to first."""
    return aligner.maps(first, second, languages[1]), aligner.maps(second, first, languages[0])


def measure(name: str, folder: ModelFolder, aligner: Aligner, data: Path, choice: AlignmentChoice) -> list[list[object]]:
    """Rows of the table for one gold set: the chosen heads joined in every way, then every layer and head by itself."""
    read, first, second = SETS[name]
    gold = read(data)
    maps = [both_ways(aligner, pair.first, pair.second, (first, second)) for pair in tqdm(gold, desc=name)]
    found: dict[str, list[Links]] = {}
    for pair, (forward, backward) in zip(gold, maps, strict=True):
        ways = symmetrized(forward, backward, choice, (len(pair.first), len(pair.second)))
        for way, links in ways.items():
            found.setdefault(way, []).append(links)
    rows: list[list[object]] = [[name, "chosen", way, *quality(links, gold).values()] for way, links in found.items()]
    for layer in range(folder.model.decoder_layers):
        for head in (None, *range(folder.model.heads)):
            for shift in (False, True):
                one = AlignmentChoice(layer=layer, heads=None if head is None else (head,), shift=shift)
                figures = quality([forward.links(one) for forward, _ in maps], gold)
                which = f"layer {layer}, " + ("mean" if head is None else f"head {head}") + (", next row" if shift else "")
                rows.append([name, which, f"{first} to {second}", *figures.values()])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _parser().parse_args(arguments)
    try:
        folder = read_folder(options.model)
        aligner = Aligner(folder, options.threads)
        choice = AlignmentChoice.load(folder.path, folder.model.decoder_layers)
        if options.choose:
            choice = _chosen(options, folder, aligner)
        rows: list[list[object]] = []
        for name, (_, first, second) in SETS.items():
            if {(first, second), (second, first)} <= set(folder.pairs):
                rows += measure(name, folder, aligner, options.data, choice)
            else:
                print(f"{name}: {folder.name} does not translate {first}-{second} both ways", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    header = ("set", "heads", "links", "AER", "precision", "recall")
    print(f"choice: {choice.to_json()}")
    print(report.table(header, rows))
    if options.output:
        report.write(options.output, {"choice": asdict(choice), "header": header, "rows": rows})
    return 0


def _chosen(options: argparse.Namespace, folder: ModelFolder, aligner: Aligner) -> AlignmentChoice:
    first, second = options.choose.name.split(".")[-2].split("-")
    lines = options.choose.read_text(encoding="utf-8").splitlines()[: options.limit]
    texts = [[re.findall(r"\w+|[^\w\s]", side) for side in line.split("\t")] for line in lines]
    pairs = [both_ways(aligner, a, b, (first, second)) for a, b in tqdm(texts, desc=options.choose.name) if a and b]
    choice, agreement = choose(pairs)
    print(f"the two directions agree by {agreement:.1f} %", file=sys.stderr)
    if options.write:
        (folder.path / FILE).write_text(choice.to_json(), encoding="utf-8")
    return choice


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.alignment", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--data", type=Path, required=True, help="folder of the gold alignments")
    parser.add_argument("--choose", type=Path, help="SET.en-XX.tsv: pairs to choose layer and heads on")
    parser.add_argument("--limit", type=int, default=300, help="pairs of --choose that are read (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="store the choice in the model folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
