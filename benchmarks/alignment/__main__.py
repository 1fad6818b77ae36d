"""Alignment error rate against gold alignments: of the alignments that the server shows and of every attention head.

    python -m benchmarks.alignment --model weights/NAME --data ALIGNMENTS
    python -m benchmarks.alignment --model weights/NAME --choose DATA/tatoeba-dev.en-fr.tsv --write

A set of `--data` is measured if the model translates between its languages in both directions. Every pair is aligned as in the
server (`model.analysis.pair_alignment`, "combined"), and force-scored in both directions for the attention of every
head. The heads and rows of cross-attention that align best are chosen without gold alignments: their links agree most
between the two directions of `--choose`. `--write` stores the choice in the model folder, from which the server reads
it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

from tqdm import tqdm

from benchmarks.alignment.gold import SETS, GoldPair, Links, Written, of_tokens, quality, written
from benchmarks.alignment.maps import Aligner, Maps
from benchmarks.common import report
from model.analysis.attention_alignment import FILE, AlignmentChoice, AlignmentHead
from model.atomic_write import atomic_write
from model.model_folder import ModelFolder, read_folder

_HEADS = 3
"""Number of chosen heads. Their mean may agree less than the best head alone, but has a lower error rate."""


def choose(pairs: Sequence[tuple[Maps, Maps]]) -> tuple[AlignmentChoice, float]:
    """Returns the heads whose links agree most between the two directions, and their joint agreement (F1 in
    percent)."""
    layers, heads = pairs[0][0].cross.shape[:2]
    every = [AlignmentHead(*each) for each in product(range(layers), range(heads), (False, True))]
    ranked = sorted(every, key=lambda head: -agreement(pairs, AlignmentChoice((head,))))
    best = AlignmentChoice(tuple(ranked[:_HEADS]))
    return best, agreement(pairs, best)


def agreement(pairs: Sequence[tuple[Maps, Maps]], choice: AlignmentChoice) -> float:
    """Returns the agreement of the links of the two directions (F1 in percent)."""
    common = total = 0
    for forward, backward in pairs:
        there, back = forward.links(choice), {(i, j) for j, i in backward.links(choice)}
        common += len(there & back)
        total += len(there) + len(back)
    return 200 * common / max(1, total)


def both_ways(aligner: Aligner, first: Written, second: Written, languages: tuple[str, str]) -> tuple[Maps, Maps]:
    """Returns the maps of both directions."""
    return aligner.maps(first, second, languages[1]), aligner.maps(second, first, languages[0])


def measure(
    name: str, folder: ModelFolder, aligner: Aligner, data: Path, choice: AlignmentChoice
) -> list[list[object]]:
    """Returns the rows of the table for one gold set: the combined method, the chosen heads with every method of
    combining directions, then every layer and head alone."""
    read, *languages = SETS[name]
    gold = read(data)
    sides = [(written(pair.first, languages[0]), written(pair.second, languages[1])) for pair in gold]
    both = languages[0], languages[1]
    maps = [both_ways(aligner, *side, both) for side in tqdm(sides, desc=f"{name}, attention", disable=None)]
    combined = [
        aligner.combined(*side, both, forward.soft(choice, (len(side[0].spans), len(side[1].spans))))
        for side, (forward, _) in tqdm(list(zip(sides, maps, strict=True)), desc=f"{name}, words", disable=None)
    ]
    rows: list[list[object]] = [[name, "combined", "as served", *_figures(combined, sides, gold)]]
    there = [forward.links(choice) for forward, _ in maps]
    both_agree = [links & {(i, j) for j, i in back.links(choice)} for links, (_, back) in zip(there, maps, strict=True)]
    for way, links in ((f"{both[0]} to {both[1]}", there), ("in both directions", both_agree)):
        rows.append([name, "chosen", way, *_figures(links, sides, gold)])
    for layer in range(folder.model.decoder_layers):
        for head in (None, *range(folder.model.heads)):
            for shift in (False, True):
                one = AlignmentChoice((AlignmentHead(layer, head, shift),))
                figures = _figures([forward.links(one) for forward, _ in maps], sides, gold)
                which = (
                    f"layer {layer}, " + ("mean" if head is None else f"head {head}") + (", next row" if shift else "")
                )
                rows.append([name, which, f"{both[0]} to {both[1]}", *figures])
    return rows


def _figures(found: Sequence[Links], sides: Sequence[tuple[Written, Written]], gold: Sequence[GoldPair]) -> list[float]:
    tokens = [of_tokens(links, *side) for links, side in zip(found, sides, strict=True)]
    return list(quality(tokens, gold).values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        folder = read_folder(options.model)
        aligner = Aligner(folder, options.threads)
        if options.choose:
            choice = _chosen(options, folder, aligner)
        else:
            choice = AlignmentChoice.load(folder.path, folder.model.decoder_layers, folder.model.heads)
        rows: list[list[object]] = []
        for name, (_, first, second) in SETS.items() if options.data else ():
            if {(first, second), (second, first)} <= set(folder.pairs):
                rows += measure(name, folder, aligner, options.data, choice)
            else:
                print(f"{name}: {folder.name} does not translate {first}-{second} both ways", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    header = ("set", "heads", "links", "AER", "precision", "recall")
    print(f"choice: {choice.to_json()}")
    if rows:
        print(report.table(header, rows))
    if options.json:
        report.write(options.json, {"benchmark": "alignment", "choice": asdict(choice), "header": header, "rows": rows})
    return 0


def _chosen(options: argparse.Namespace, folder: ModelFolder, aligner: Aligner) -> AlignmentChoice:
    first, second = options.choose.name.split(".")[-2].split("-")
    lines = options.choose.read_text(encoding="utf-8").splitlines()[: options.limit]
    texts = [[re.findall(r"\w+|[^\w\s]", side) for side in line.split("\t")] for line in lines]
    sides = [(written(a, first), written(b, second)) for a, b in texts if a and b]
    pairs = [both_ways(aligner, *side, (first, second)) for side in tqdm(sides, desc=options.choose.name, disable=None)]
    choice, agreement = choose(pairs)
    print(f"the two directions agree by {agreement:.1f} %", file=sys.stderr)
    if options.write:
        with atomic_write(folder.path / FILE) as part:
            part.write_text(choice.to_json(), encoding="utf-8")
    return choice


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.alignment", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--data", type=Path, help="folder of gold alignments (default: none is measured)")
    parser.add_argument("--choose", type=Path, help="SET.en-XX.tsv: pairs for the choice of the heads")
    parser.add_argument(
        "--limit", type=int, default=300, help="number of pairs read from --choose (default %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="store the choice in the model folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
