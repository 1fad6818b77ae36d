"""Measures the time of encoding, decode steps and the search in Python, and compares the matrix products with the limit
of the processor. With Linux `perf`, also reports the share of each kind of function.

    python -m benchmarks.engine.profile --random base --vocabulary 32000 --batch 64 --threads 2
    python -m benchmarks.engine.profile --model weights/general-en-de-fr-es --data DATA --sets tatoeba-dev --shortlist auto
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from benchmarks.common import report
from benchmarks.common.arguments import add_model_options
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.model_loader import OpenModel, open_model
from benchmarks.engine.decode_limit import step_weights
from benchmarks.engine.random_model import random_sources, write_random_model
from model.backends.cpu.isa import Isa
from model.search.base import StepOutput
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.shortlist import ShortlistUse

Result = TypeVar("Result")
_KINDS = (
    ("integer and float products", r"::int8<|::float32<|tile_|multiply_panel|Linear::(panel|Linear)|pack_"),
    ("attention", r"attend|page_scores|weighted_values|write_position|softmax"),
    ("quantising rows, activation", r"quantize|relu|swish|gelu"),
    ("norms, residuals, embeddings", r"norm|add\b|embed|Linear::row"),
    ("top-k selection", r"TopK|select_candidates|score_tokens|top"),
    ("waiting for the other thread", r"ThreadPool|futex|pause|pthread_cond"),
    ("other functions of the CPU backend", r"attentive::"),
)
"""Functions of the CPU backend by purpose. All others belong to Python, numpy or the kernel."""


class TimedBackend:
    """Backend wrapper that adds up the seconds of each method."""

    def __init__(self, opened: OpenModel) -> None:
        self._backend, self.slots = opened.backend, opened.backend.slots
        self.seconds: dict[str, float] = defaultdict(float)
        self.rows = self.steps = 0

    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int],
        masked_heads: Sequence[tuple[tuple[str, int, int], ...]] = (),
    ) -> None:  # fmt: skip
        self._timed("encode", lambda: self._backend.prefill(sources, slots, masked_heads))

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        self.rows += len(slots)
        self.steps += 1
        return self._timed("step", lambda: self._backend.step(slots, tokens, candidates, forced))

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        self._timed("reorder", lambda: self._backend.reorder(targets, origins))

    def free(self, slots: Sequence[int]) -> None:
        self._timed("free", lambda: self._backend.free(slots))

    def _timed(self, name: str, call: Callable[[], Result]) -> Result:
        began = time.perf_counter()
        result = call()
        self.seconds[name] += time.perf_counter() - began
        return result


def measure(opened: OpenModel, options: argparse.Namespace) -> dict[str, Any]:
    """Measures the time per part over `options.repeats` passes, and the sampled shares of functions."""
    config = opened.config
    if options.data:
        sources: Sequence[Sequence[int]] = sentences(opened, options.data, options.sets, options.batch)
        decoding = DecodingOptions(beam_size=options.beam)
    else:
        sources = random_sources(config.vocab_size, options.batch, options.tokens, config.eos_id)
        decoding = DecodingOptions(beam_size=options.beam, max_length=options.tokens)
    timed = TimedBackend(opened)

    def run() -> None:
        translate(
            timed, sources, decoding,
            start=config.decoder_start_id, end=config.eos_id, max_length=config.max_length,
        )  # fmt: skip

    run()
    timed.seconds.clear()
    timed.rows = timed.steps = 0
    total = 0.0

    def repeat() -> None:
        nonlocal total
        began = time.perf_counter()
        for _ in range(options.repeats):
            run()
        total = time.perf_counter() - began

    shares = _sampled(repeat)
    parts = {**timed.seconds, "search in Python": total - sum(timed.seconds.values())}
    products = step_weights(config) * timed.rows / timed.seconds["step"]
    return {
        "rows per step": timed.rows / timed.steps,
        "step_ms": 1000 * timed.seconds["step"] / timed.steps,
        "tokens/s": timed.rows / total,
        "parts": {name: seconds / total for name, seconds in parts.items()},
        "step_products_per_second": products,
        "shares": shares,
    }


def sentences(opened: OpenModel, data: Path, sets: Sequence[str], count: int) -> list[tuple[int, ...]]:
    """Returns the ids of `count` random sentences of the development sets, all directions of the model mixed."""
    each = choose(read_sets(data, sets), opened.directions)
    draw = random.Random(1)
    chosen = [draw.choice(each) for _ in range(count)]
    return [opened.tokenizer.encode_ids(draw.choice(one.sources), one.target, one.source) for one in chosen]


def peak_products(precision: str, threads: int, size: int = 2048) -> float:
    """Returns the multiplications per second of torch's matrix product at this precision, as a reference for the
    machine."""
    import torch

    torch.set_num_threads(threads)
    if precision == "int8":
        left = torch.randint(-127, 127, (size, size), dtype=torch.int8)
        product: Callable[[], Any] = lambda: torch._int_mm(left, left)  # noqa: E731
    else:
        matrix = torch.randn(size, size)
        product = lambda: matrix @ matrix  # noqa: E731
    best = 0.0
    for _ in range(8):
        began = time.perf_counter()
        product()
        best = max(best, size**3 / (time.perf_counter() - began))
    return best


def _sampled(work: Callable[[], None]) -> dict[str, float] | None:
    """Runs the work and returns the shares of samples by kind of function, or None if perf is missing or not
    permitted."""
    perf = shutil.which("perf")
    if perf is None:
        work()
        return None
    with tempfile.TemporaryDirectory() as scratch:
        data = str(Path(scratch) / "perf.data")
        recorder = subprocess.Popen(
            [perf, "record", "-q", "-e", "cpu-clock", "-o", data, "-p", str(os.getpid())], stderr=subprocess.DEVNULL
        )
        time.sleep(0.5)
        work()
        recorder.send_signal(signal.SIGINT)
        recorder.wait(30)
        command = [perf, "report", "-i", data, "--stdio", "--no-children", "-F", "overhead,sym"]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return by_kind(text) or None


def by_kind(text: str) -> dict[str, float]:
    """Parses the output of `perf report -F overhead,sym` into shares (0 to 1) by kind of function."""
    shares: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if found := re.match(r"\s*([0-9.]+)%\s+\[(.)\]\s+(.*)", line):
            kind = next(
                (k for k, pattern in _KINDS if "attentive::" in found[3] and re.search(pattern, found[3])), None
            )
            shares[kind or ("kernel" if found[2] == "k" else "Python and libraries")] += float(found[1]) / 100
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        path = options.model
        if path is None:
            path = write_random_model(Path(scratch) / "random", options.random, options.vocabulary).path
        opened = open_model(
            path, engine=options.engine, precision=options.precision, slots=options.batch * options.beam,
            threads=options.threads, isa=options.isa, shortlist=options.shortlist,
        )  # fmt: skip
    found = measure(opened, options)
    limit = None if options.without_limit else peak_products(options.precision, options.threads)
    print(
        f"{found['rows per step']:.0f} rows a step, {found['step_ms']:.2f} ms a step, {found['tokens/s']:.0f} tokens/s"
    )
    print(report.table(("part", "% of time"), [(name, 100 * share) for name, share in found["parts"].items()]))
    rate = found["step_products_per_second"]
    reference = "" if limit is None else f"; torch's large product: {limit / 1e9:.0f} G/s"
    print(f"Linear layers of a step: {rate / 1e9:.0f} G products/s{reference}.")
    if found["shares"]:
        print(report.table(("functions", "% of samples"), [(n, 100 * share) for n, share in found["shares"].items()]))
    if options.json:
        settings = {"batch": options.batch, "beam": options.beam, "threads": options.threads, "model": opened.name}
        fields = {"precision": options.precision, "torch_products_per_second": limit}
        report.write(options.json, {"benchmark": "profile", **settings, **fields, **found})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine.profile", description=(__doc__ or "").split("\n\n")[0]
    )
    add_model_options(parser)
    parser.add_argument("--engine", choices=["native", "torch"], default="native")
    parser.add_argument("--precision", choices=["int8", "float32"], default="int8")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32, help="source and target length of random sources")
    parser.add_argument(
        "--data", type=Path, help="folder with SET.en-XX.tsv files: real sentences, all directions mixed"
    )
    parser.add_argument(
        "--sets", nargs="+", default=[], metavar="SET", help="names of sets (default: all in the folder)"
    )
    parser.add_argument("--shortlist", choices=get_args(ShortlistUse), default="off", help="as of the server")
    parser.add_argument(
        "--without-limit", action="store_true", help="leave out torch's product, whose int8 takes minutes without VNNI"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", choices=get_args(Isa), default="auto", help="instruction set of the CPU backend")
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
