"""Quality and processor time of a server's searches: greedy, the model's own, and reranking with the reverse direction.

    python -m benchmarks.quality.searches weights --data DATA/dev --sets tatoeba-dev flores-dev --limit 500

Texts take the whole path of a request except HTTP. The time is that of the workers, relative to greedy search.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks.common import report
from benchmarks.common.arguments import add_local_options
from benchmarks.common.development_sets import DevelopmentSet, read_sets
from benchmarks.load.processor_time import descendants, seconds_of
from model.search.options import DecodingOptions
from model.training.loop.evaluate import Scores, score
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
    """The command line."""
    options = _parser().parse_args(arguments)
    try:
        sets = read_sets(options.data, options.sets, options.limit)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    services = local_services(Settings(weights=options.weights, threads=options.threads))
    measured = asyncio.run(measure(services, sets))
    names = sorted({item.name for item in sets})
    print(report.table(("search", *[f"{name}: BLEU, chrF, time" for name in names]), [
        [search, *[_cell(measured, search, name) for name in names]] for search in SEARCHES
    ]))  # fmt: skip
    return 0


Measured = dict[tuple[str, str], list[tuple[Scores, float]]]
"""The scores of each direction, and the seconds of its translation, by search and set."""


async def measure(services: Services, sets: Sequence[DevelopmentSet]) -> Measured:
    """Translates the sets of the directions that are served."""
    found: Measured = {}
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
                found.setdefault((search, item.name), []).append((score(texts, item.references, item.target), seconds))
    return found


def _cell(measured: Measured, search: str, name: str) -> str:
    scores, seconds = zip(*measured[search, name], strict=True)
    greedy = sum(spent for _, spent in measured["greedy", name])
    return f"{fmean(one.bleu for one in scores):.1f} / {fmean(one.chrf for one in scores):.1f} / {sum(seconds) / greedy:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_local_options(parser, limit=500, threads=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
