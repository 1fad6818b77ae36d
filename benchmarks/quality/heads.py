"""Head health of a model folder: entropy of every head, its weight on other words than its own, the first and the last,
and the attention gain of every layer.

python -m benchmarks.quality.heads weights/NAME --data DATA --set flores-dev --limit 50
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import report
from benchmarks.common.development_sets import DevelopmentSet, choose, read_sets
from model.backends.torch.attention_gain import attention_gain
from model.backends.torch.head_health import HeadHealth, ModelHealth, model_health, reading_share, summary
from model.backends.torch.inputs import pad_ids
from model.checkpoint import load_model
from model.model_folder import ModelFolder, read_folder

_ROWS = 25
"""Sentences that are measured together."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _parser().parse_args(arguments)
    try:
        served = read_folder(options.folder)
        pairs = ["-".join(pair) for pair in served.pairs]
        sets = choose(read_sets(options.data, [options.set], options.limit), options.directions or pairs)
        health, gains = measure(served, sets)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for kind, layers in health.kinds().items():
        print(f"{kind}: {100 * reading_share(layers):.0f}% of the heads read")
        heads = [f"head {head}" for head in range(len(layers[0]))]
        rows = [
            [str(number), *map(_cell, layer), f"{gain:.3f}"]
            for number, (layer, gain) in enumerate(zip(layers, gains[kind], strict=True))
        ]
        print(report.table(("layer", *heads, "gain"), rows))
    print("Cells: entropy in bits; weight on itself / first / last in %; * where less than half is on other words.")
    print("Gain: growth of the loss in nats per token if all heads of the layer attend to all positions equally.")
    if options.json:
        figures = {"heads": summary(health), "gain": gains}
        report.write(options.json, {"benchmark": "heads", "model": served.name, **figures})
    return 0


def measure(served: ModelFolder, sets: Sequence[DevelopmentSet]) -> tuple[ModelHealth, dict[str, list[float]]]:
    """Health and attention gain on the pairs of `sets`, references forced; the mean over batches of like size."""
    model, batches = load_model(served).eval(), _batches(served, sets)
    health = [model_health(model, source, target) for source, target in batches]
    gains = [attention_gain(model, source, target) for source, target in batches]
    return (
        ModelHealth(*(_mean([list(each.kinds().values())[kind] for each in health]) for kind in range(3))),
        {kind: np.mean([gain[kind] for gain in gains], axis=0).tolist() for kind in gains[0]},
    )


def _batches(served: ModelFolder, sets: Sequence[DevelopmentSet]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Sources (B, S) and decoder inputs (B, T) of the pairs of `sets`."""
    tokenizer, config = served.load_tokenizer(), served.model
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for item in sets:
        sources = [tokenizer.encode_ids(text, item.target) for text in item.sources]
        targets = [(config.decoder_start_id, *tokenizer.encode_target(text)) for text in item.references]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        for at in range(0, len(order), _ROWS):
            rows = order[at : at + _ROWS]
            source, target = (
                pad_ids([side[i][: config.max_length] for i in rows], config.pad_id, torch.device("cpu"))[0]
                for side in (sources, targets)
            )
            found.append((source, target))
    return found


def _mean(parts: Sequence[list[list[HeadHealth]]]) -> list[list[HeadHealth]]:
    def mean(layer: int, head: int, field: str) -> float:
        return sum(float(getattr(part[layer][head], field)) for part in parts) / len(parts)

    fields = ("entropy", "own", "first", "last")
    return [
        [HeadHealth(*(mean(layer, head, field) for field in fields)) for head in range(len(heads))]
        for layer, heads in enumerate(parts[0])
    ]


def _cell(head: HeadHealth) -> str:
    places = "/".join(f"{100 * share:.0f}" for share in (head.own, head.first, head.last))
    return f"{head.entropy:.1f} {places}{'' if head.reading else ' *'}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.heads", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a model folder")
    parser.add_argument("--data", type=Path, required=True, help="folder with SET.en-XX.tsv files")
    parser.add_argument("--set", default="flores-dev", help="name of the set (flores-dev)")
    parser.add_argument("--directions", nargs="+", default=[], help="en-de de-en ... (default: all that are served)")
    parser.add_argument("--limit", type=int, default=50, help="the first N pairs (50)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
