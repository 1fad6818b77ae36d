"""Compares this engine with CTranslate2 on the same weights: speed and BLEU by batch size.

    python -m benchmarks.engine --model weights/NAME --data DATA --direction en-de --threads 2
    --json engine.json python -m benchmarks.engine --random base --vocabulary 32000 --batches 32 64
    --threads 2

Every engine runs in a separate process. For each batch size and search the engines take turns (A B
A B) on the same sentences, and the medians are compared. With --device cuda the same is measured on
a GPU, with the backend that the server's worker uses.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from tqdm import tqdm

from benchmarks.common import report
from benchmarks.common.command_line import new_parser, publish, run
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.engine.adapters import Clock, Ids, Kind, Spec
from benchmarks.engine.engine_process import EngineProcess, Run
from benchmarks.engine.profile import HEADER, profile
from model.backends.cpu.isa import Isa
from model.evaluation import score
from model.model_folder import ModelFolder, read_folder
from server.engine.worker.device_config import GPU_SLOTS

_HEADER = ("search", "batch", "engine", "sentences/s", "tokens/s", "ratio", "same", "BLEU")
_SETTLE_SECONDS = 0.3
"""Pause between two turns, in which the threads of the last engine stop spinning."""
_CPU = tuple(
    f"{engine}:{precision}"
    for precision in ("int8", "float32")
    for engine in ("attentive-native", "ctranslate2", "ctranslate2-workers")
)
_CUDA = ("attentive-torch:bfloat16", "ctranslate2:float16")
_BATCHES = {"cpu": (1, 8, 32, 64, 128), "cuda": (1, 8, 32, 64, 128, 256)}


@dataclass(frozen=True, slots=True)
class Work:
    """The sentences of a run. A target has at most `limit` tokens. With random weights, which have
    no `references` and no `decode`, it has exactly `limit` tokens."""

    folder: ModelFolder
    sources: list[Ids]
    references: list[str] | None
    decode: Callable[[Sequence[int]], str] | None
    target: str
    limit: int

    @property
    def fixed(self) -> bool:
        """True if all targets have the same length."""
        return self.references is None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    options.batches = options.batches or _BATCHES[options.device]

    def measure_all() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            work = _random_work(options, Path(scratch)) if options.random else _real_work(options)
            if options.profile:
                times = profile(work.folder, work.sources, options, Path(scratch))
                print(report.table(HEADER, times))
                return
            rows = measure(_specs(options, work.folder, Path(scratch)), work, options)
        names = ("threads", "device", "isa", "clock", "rounds", "sets")
        settings = {"model": work.folder.name} | {name: getattr(options, name) for name in names}
        settings["direction"] = None if work.fixed else options.direction
        publish(options, _HEADER, rows, benchmark="engine", **settings)

    return run(measure_all)


def measure(specs: Sequence[Spec], work: Work, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures all engines in turns at every batch size and search. `ratio` is the speed of this
    engine divided by theirs at the same precision; `same` is the share of targets that equal this
    engine's."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        engines = [stack.enter_context(EngineProcess(spec)) for spec in specs]
        cells = [(beam, batch) for beam in options.beams for batch in options.batches]
        with tqdm(
            total=len(cells) * len(engines) * (options.rounds + 1), unit="run", disable=None
        ) as bar:
            for beam, batch in cells:
                count = min(len(work.sources), max(options.least, options.batches_per_run * batch))
                sources = work.sources[:count]
                runs: dict[str, list[Run]] = {engine.spec.name: [] for engine in engines}
                for turn in range(options.rounds + 1):
                    for engine in engines:
                        time.sleep(_SETTLE_SECONDS)
                        # The first turn warms up caches, allocators and compiled code.
                        part = sources if turn else sources[: max(batch, 4)]
                        run = engine.translate(part, batch, beam, work.limit)
                        if turn:
                            runs[engine.spec.name].append(run)
                        bar.update()
                rows += _rows(engines, runs, work, sources, batch, beam)
    return rows


def _rows(
    engines: Sequence[EngineProcess],
    runs: dict[str, list[Run]],
    work: Work,
    sources: Sequence[Ids],
    batch: int,
    beam: int,
) -> list[dict[str, Any]]:
    seconds = {
        name: statistics.median(run.seconds for run in found) for name, found in runs.items()
    }
    rows = []
    for engine in engines:
        name = engine.spec.name
        targets = runs[name][0].targets
        precision = engine.spec.precision
        own = [each for each in runs if re.fullmatch(f"attentive-.* {precision}", each)]
        ratio = same = "-"
        bleu: float | str = "-"
        if own:
            ratio = f"{seconds[name] / seconds[own[0]]:.2f}"
            equal = sum(a == b for a, b in zip(targets, runs[own[0]][0].targets, strict=True))
            same = f"{100 * equal / len(targets):.0f}%"
        if work.references is not None and work.decode is not None:
            texts = [work.decode(ids) for ids in targets]
            bleu = score(texts, work.references[: len(targets)], work.target).bleu
        rows.append(
            {
                "search": "greedy" if beam == 1 else f"beam{beam}",
                "batch": batch,
                "engine": name,
                "sentences/s": len(sources) / seconds[name],
                "tokens/s": sum(len(ids) + (not work.fixed) for ids in targets) / seconds[name],
                "ratio": ratio,
                "same": same,
                "BLEU": bleu,
                "sentences": len(sources),
                "seconds": [run.seconds for run in runs[name]],
            }
        )
    return rows


def _real_work(options: argparse.Namespace) -> Work:
    if options.data is None:
        raise ValueError("--model needs --data with development sets.")
    folder = read_folder(options.model)
    tokenizer = folder.load_tokenizer()
    source, target = options.direction.split("-", 1)
    if (source, target) not in folder.pairs:
        raise ValueError(f"{folder.name} does not translate {options.direction}.")
    sets = choose(read_sets(options.data, options.sets), [options.direction])
    pairs = [pair for item in sets for pair in zip(item.sources, item.references, strict=True)][
        : options.sentences
    ]
    ids = [tokenizer.encode(text, target).ids for text, _ in pairs]
    keep = [
        i for i, row in enumerate(ids) if len(row) <= min(folder.model.max_length, options.longest)
    ]
    sources = [ids[i] for i in keep]
    limit = max(map(len, sources)) + 50
    return Work(folder, list(sources), [pairs[i][1] for i in keep], tokenizer.decode, target, limit)


def _random_work(options: argparse.Namespace, scratch: Path) -> Work:
    # Imported here: the engine processes import this module, and some of them must not import
    # torch.
    from benchmarks.engine.random_model import random_sources, write_random_model

    folder = write_random_model(scratch / "random", options.random, options.vocabulary)
    count = min(
        options.sentences, max(options.least, options.batches_per_run * max(options.batches))
    )
    sources = random_sources(options.vocabulary, count, options.tokens, folder.model.eos_id)
    return Work(folder, list(sources), None, None, "de", options.tokens)


def _specs(options: argparse.Namespace, folder: ModelFolder, scratch: Path) -> list[Spec]:
    """Returns the engines to measure and exports the folder for the peers among them."""
    specs = []
    # A step on a GPU computes all rows that there are: as many as the server's worker has.
    least = 64 if options.device == "cpu" else GPU_SLOTS
    rows = max(least, max(options.batches) * max(options.beams))
    for text in options.engines or (_CPU if options.device == "cpu" else _CUDA):
        kind, _, precision = text.partition(":")
        machine = {"device": options.device, "isa": options.isa, "clock": options.clock}
        specs.append(
            Spec(
                cast(Kind, kind), precision, folder.path, scratch, options.threads, rows, **machine
            )
        )
        if kind.startswith("ctranslate2") and not (scratch / f"ctranslate2-{precision}").exists():
            from model.convert.ctranslate2.export import export_ctranslate2

            quantization = None if precision == "float32" else precision
            export_ctranslate2(
                folder, scratch / f"ctranslate2-{precision}", quantization=quantization
            )
    return specs


def _parser() -> argparse.ArgumentParser:
    shared = ("--direction", "--threads", "--rounds", "--json")
    parser = new_parser("engine", __doc__, *shared)
    system = parser.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", type=Path, help="a model folder")
    system.add_argument("--random", metavar="PRESET", help="random weights: base, big, small")
    parser.add_argument("--vocabulary", type=int, default=32_000, help="of the random model")
    parser.add_argument("--tokens", type=int, default=32, help="length with random weights")
    parser.add_argument("--data", type=Path, help="folder with SET.en-XX.tsv files")
    parser.add_argument("--sets", nargs="+", default=["newstest2013"], help="names of sets")
    parser.add_argument("--sentences", type=int, default=2000, help="maximum number of sentences")
    parser.add_argument("--longest", type=int, default=200, help="maximum tokens of a source")
    parser.add_argument(
        "--batches", type=int, nargs="+", help=f"sentences decoded together (default: {_BATCHES})"
    )
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4], help="1 is greedy")
    parser.add_argument("--batches-per-run", type=int, default=6, help="batches per run ...")
    parser.add_argument("--least", type=int, default=32, help="... but at least so many sentences")
    parser.add_argument("--engines", nargs="+", metavar="KIND:PRECISION", help=" ".join(_CPU))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--isa", choices=get_args(Isa), default="auto", help="of all engines")
    clock = "processor: processor time, for one thread on a core that other programs also use"
    parser.add_argument("--clock", choices=get_args(Clock), default="wall", help=clock)
    kinds = "print instead where the time of the CPU engine goes, on one thread and on --threads"
    parser.add_argument("--profile", action="store_true", help=kinds)
    return parser


if __name__ == "__main__":
    sys.exit(main())
