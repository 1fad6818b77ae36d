"""BLEU and chrF per direction and development set, of a model folder or of any
LibreTranslate-compatible server.

python -m benchmarks.quality --model weights/NAME --data DATA --search greedy beam4 --precision
float32 int8 python -m benchmarks.quality --url http://127.0.0.1:5000 --data DATA --sets flores-dev
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from attentive import Client
from benchmarks.common.command_line import new_parser, publish, run
from benchmarks.common.development_sets import DevelopmentSet, choose, read_sets
from benchmarks.common.model_loader import Engine, OpenModel, open_model
from model.evaluation import score, translate_texts
from model.search.options import DecodingOptions

_HEADER = "set direction engine precision search sentences BLEU chrF sentences/s".split()
Translated = tuple[Sequence[str], dict[str, int]]
"""Translations in the order of the sources, and counts that are reported with the scores."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)

    def measure() -> None:
        sets = read_sets(options.data, options.sets, options.limit)
        rows = measure_server(options, sets) if options.url else measure_folder(options, sets)
        publish(options, _HEADER, rows, benchmark="quality")

    return run(measure)


def measure_folder(
    options: argparse.Namespace, sets: Sequence[DevelopmentSet]
) -> list[dict[str, Any]]:
    """Returns the scores of a model folder for each precision and search."""
    rows: list[dict[str, Any]] = []
    for precision in options.precision:
        engine: Engine = "native" if precision == "int8" else options.engine
        opened = open_model(
            options.model,
            engine=engine,
            precision=precision,
            device=options.device,
            slots=options.slots,
            threads=options.threads,
        )
        for name in options.search or ["greedy"]:
            labels = {"system": opened.name, "engine": engine}
            labels |= {"precision": precision, "search": name}
            translate = partial(_translate_folder, opened, search_options(name))
            rows += [
                _row(item, translate, labels)
                for item in choose(sets, options.directions or opened.directions)
            ]
    return rows


def measure_server(
    options: argparse.Namespace, sets: Sequence[DevelopmentSet]
) -> list[dict[str, Any]]:
    """Returns the scores of a server, which receives lists of texts. `beam_size` is sent only if a
    search is given."""
    rows: list[dict[str, Any]] = []
    client = Client(options.url, options.api_key)
    directions = options.directions or [
        f"{item['code']}-{target}" for item in client.languages() for target in item["targets"]
    ]
    for name in options.search or ["default"]:
        fields = {} if name == "default" else {"beam_size": search_options(name).beam_size}
        labels = {"system": options.url, "engine": "HTTP", "precision": "server's", "search": name}
        translate = partial(_translate_server, client, fields, options.batch)
        rows += [_row(item, translate, labels) for item in choose(sets, directions)]
    return rows


def _translate_folder(
    opened: OpenModel, decoding: DecodingOptions, item: DevelopmentSet
) -> Translated:
    found = translate_texts(
        opened.backend,
        opened.tokenizer,
        opened.config,
        item.sources,
        item.target,
        decoding,
        opened.generation,
    )
    return found.texts, {"tokens": found.tokens, "cut": found.cut, "unfinished": found.unfinished}


def _translate_server(
    client: Client, fields: dict[str, Any], batch: int, item: DevelopmentSet
) -> Translated:
    return client.translate(
        item.sources, item.source, item.target, batch=batch, progress=True, **fields
    ), {}


def search_options(name: str) -> DecodingOptions:
    """Parses `greedy` or `beamN`. Raises ValueError for other names."""
    if name == "greedy":
        return DecodingOptions()
    size = name.removeprefix("beam")
    if not name.startswith("beam") or not size.isdecimal():
        raise ValueError(f"A search is greedy or beamN, not {name!r}.")
    return DecodingOptions(beam_size=int(size))


def _row(
    item: DevelopmentSet, translate: Callable[[DevelopmentSet], Translated], labels: dict[str, str]
) -> dict[str, Any]:
    began = time.perf_counter()
    texts, counts = translate(item)
    seconds = time.perf_counter() - began
    scores = score(texts, item.references, item.target)
    fields = asdict(scores)
    figures = {"BLEU": fields.pop("bleu"), "chrF": fields.pop("chrf")}
    figures |= {"sentences/s": len(texts) / seconds, "seconds": seconds}
    return {"set": item.name, "direction": item.direction, **labels, **figures, **fields, **counts}


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("quality", __doc__, "--data", "--sets", "--limit", "--threads", "--json")
    system = parser.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", type=Path, help="a model folder")
    system.add_argument("--url", help="a server that answers POST /translate")
    parser.add_argument(
        "--directions", nargs="+", default=[], help="en-de de-en ... (default: all that are served)"
    )
    parser.add_argument("--search", nargs="+", default=[], help="greedy, beam4, ...")
    parser.add_argument(
        "--precision", nargs="+", default=["float32"], help="float32, int8 (model folders)"
    )
    parser.add_argument(
        "--engine",
        choices=["torch", "native"],
        default="torch",
        help="for float32; int8 is always native",
    )
    parser.add_argument("--device", default="cpu", help="device of the torch backend")
    parser.add_argument("--slots", type=int, default=64, help="rows decoded together")
    parser.add_argument("--batch", type=int, default=50, help="texts in one request to a server")
    parser.add_argument("--api-key", help="key for the server")
    return parser


if __name__ == "__main__":
    sys.exit(main())
