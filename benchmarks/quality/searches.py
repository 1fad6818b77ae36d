"""Quality and processor time of a server's searches: greedy, the model's own, and reranking with the reverse direction.

    python -m benchmarks.quality.searches weights --data DATA --sets tatoeba-dev flores-dev --limit 500

Texts take the whole path of a request except HTTP. The time is that of the workers, relative to greedy search.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from benchmarks.common import report
from benchmarks.common.arguments import add_local_options
from benchmarks.common.development_sets import DevelopmentSet, read_sets
from benchmarks.load.processor_time import descendants, seconds_of
from model.search.options import DecodingOptions
from model.training.loop.evaluate import score
from server.cli.local_services import local_services, running
from server.config import Settings
from server.services import Services
from server.translation.types import TranslationRequest

_GUARDED = DecodingOptions(loop_guard=True)
SEARCHES = {
    "greedy": replace(_GUARDED, beam_size=1),
    "model": replace(_GUARDED, beam_size=0),
    "model, reranked": replace(_GUARDED, beam_size=0, rerank=True),
    "beam 4, reranked": replace(_GUARDED, beam_size=4, rerank=True),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        sets = read_sets(options.data, options.sets, options.limit)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    services = local_services(Settings(weights=options.weights, threads=options.threads))
    results = asyncio.run(measure(services, sets))
    names = sorted({item.name for item in sets})
    rows = [[search, *[_cell(results, search, name) for name in names]] for search in SEARCHES]
    print(report.table(("search", *[f"{name}: BLEU, chrF, time" for name in names]), rows))
    if options.json:
        report.write(options.json, {"benchmark": "searches", "rows": [asdict(one) for one in results]})
    return 0


@dataclass(frozen=True, slots=True)
class Result:
    """The scores of one search on one set in one direction, and the processor time of the workers in seconds."""

    search: str
    set: str
    direction: str
    bleu: float
    chrf: float
    seconds: float


async def measure(services: Services, sets: Sequence[DevelopmentSet]) -> list[Result]:
    """Translates the sets of the directions that are served with every search."""
    found: list[Result] = []
    async with running(services, detector=False):
        catalog, workers = services.translator.catalog, descendants(os.getpid())
        served = [item for item in sets if item.target in catalog.targets(item.source)]
        for search, options in SEARCHES.items():
            for item in served:
                request = TranslationRequest(
                    texts=item.sources, source=item.source, target=item.target, options=options, storage="none"
                )
                before = sum(map(seconds_of, workers))
                texts = [translation.text for translation in await services.translator.translate(request)]
                seconds = sum(map(seconds_of, workers)) - before
                scores = score(texts, item.references, item.target)
                found.append(Result(search, item.name, item.direction, scores.bleu, scores.chrf, seconds))
    return found


def _cell(results: Sequence[Result], search: str, name: str) -> str:
    """Returns the means of BLEU and chrF over the directions of a set, and the time relative to greedy search."""
    ours, greedy = ([one for one in results if (one.search, one.set) == (each, name)] for each in (search, "greedy"))
    time = sum(one.seconds for one in ours) / sum(one.seconds for one in greedy)
    return f"{fmean(one.bleu for one in ours):.1f} / {fmean(one.chrf for one in ours):.1f} / {time:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.searches", description=(__doc__ or "").split("\n\n")[0]
    )
    add_local_options(parser, limit=500, threads=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
