"""Alignment error rate against gold alignments: of the alignments that the server shows, of layers and of heads.

    python -m benchmarks.alignment --model weights/NAME --data ALIGNMENTS

A set of `--data` is measured if the model translates between its languages in both directions. Every pair is aligned as in the
server (`model.analysis.pair_alignment`), with the words of the gold alignment and with those that the server finds in the text;
and each word is linked to the word with the largest contribution to each layer, and the largest weight of each head.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

from tqdm import tqdm

from benchmarks.alignment.gold import SETS, GoldPair, Links, Written, of_tokens, own_words, quality, written
from benchmarks.alignment.maps import Aligner, by_attention
from benchmarks.common import report
from model.analysis.attention_alignment import AlignmentLayer
from model.analysis.pair_alignment import Scores
from model.model_folder import ModelFolder, read_folder


def measure(name: str, folder: ModelFolder, aligner: Aligner, data: Path, chosen: AlignmentLayer) -> list[list[object]]:
    """Returns the rows of the table for one gold set."""
    read, *languages = SETS[name]
    gold = read(data)
    both = languages[0], languages[1]
    rows: list[list[object]] = []
    for cut, change in (("gold words", lambda side: side), ("own words", own_words)):
        sides = [
            (change(written(pair.first, both[0])), change(written(pair.second, both[1])))
            for pair in tqdm(gold, desc=f"{name}, {cut}", disable=None)
        ]
        shapes = [(len(first.spans), len(second.spans)) for first, second in sides]
        maps = [aligner.maps(*side, both[1]) for side in sides]
        soft = [found.contributions(chosen, shape) for found, shape in zip(maps, shapes, strict=True)]
        combined = [aligner.combined(*side, both, attention) for side, attention in zip(sides, soft, strict=True)]
        attention = [by_attention(*side, attention) for side, attention in zip(sides, soft, strict=True)]
        rows.append([name, "combined", cut, *_figures(combined, sides, gold)])
        rows.append([name, "attention", cut, *_figures(attention, sides, gold)])
        if change is own_words:
            continue
        for layer, shift in product(range(folder.model.decoder_layers), (False, True)):
            row = AlignmentLayer(layer, shift)
            which = f"layer {layer}" + (", next row" if shift else "")
            found = [_largest(each.contributions(row, shape)) for each, shape in zip(maps, shapes, strict=True)]
            rows.append([name, f"largest contribution, {which}", cut, *_figures(found, sides, gold)])
            for head in range(folder.model.heads):
                found = [_largest(each.weights(row, head, shape)) for each, shape in zip(maps, shapes, strict=True)]
                rows.append([name, f"largest weight, {which}, head {head}", cut, *_figures(found, sides, gold)])
    return rows


def _largest(weights: Scores) -> Links:
    return {(int(i), j) for j, i in enumerate(weights.argmax(axis=0))} if weights.size else set()


def _figures(found: Sequence[Links], sides: Sequence[tuple[Written, Written]], gold: Sequence[GoldPair]) -> list[float]:
    tokens = [of_tokens(links, *side) for links, side in zip(found, sides, strict=True)]
    return list(quality(tokens, gold).values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        folder = read_folder(options.model)
        aligner = Aligner(folder, options.threads)
        chosen = AlignmentLayer.load(folder.path, folder.model.decoder_layers)
        rows: list[list[object]] = []
        for name, (_, first, second) in SETS.items():
            if {(first, second), (second, first)} <= set(folder.pairs):
                rows += measure(name, folder, aligner, options.data, chosen)
            else:
                print(f"{name}: {folder.name} does not translate {first}-{second} both ways", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    header = ("set", "links", "words", "AER", "precision", "recall")
    print(report.table(header, rows))
    if options.json:
        report.write(options.json, {"benchmark": "alignment", "layer": asdict(chosen), "header": header, "rows": rows})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.alignment", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--data", type=Path, required=True, help="folder of gold alignments")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
