"""Compares a decode step with its lower bound: the time to read the weights and the used keys and values once.

    python -m benchmarks.engine.decode_limit --random base --vocabulary 32000 --device cuda --slots 256
    python -m benchmarks.engine.decode_limit --model weights/NAME --device cuda

The lower bound is the number of these bytes divided by the bandwidth of a large copy on the same device (bytes read
plus bytes written). A step is measured as the server runs it, from a captured CUDA graph if there is one. A second
measurement includes the host: it sends the tokens and fetches the chosen ones.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from benchmarks.common import report
from benchmarks.common.arguments import add_model_options
from benchmarks.engine.random_model import random_sources, write_random_model
from model.backends.cuda.graphs import GraphedBackend
from model.checkpoint import load_model
from model.config import ModelConfig
from model.model_folder import ModelFolder, read_folder

Result = TypeVar("Result")
_COPY_BYTES = {"cuda": 2 << 30, "cpu": 64 << 20}
_HEADER = ("slots", "source", "step us", "with host us", "MB read", "copy GB/s", "limit us", "step / limit", "engine")


@dataclass(frozen=True, slots=True)
class Limit:
    """One measurement: times in seconds per step, bandwidth in bytes per second (read and written)."""

    slots: int
    source_length: int
    mean_length: float
    step: float
    with_host: float
    weight_bytes: int
    cache_bytes: int
    bandwidth: float
    engine: str

    @property
    def limit(self) -> float:
        return (self.weight_bytes + self.cache_bytes) / self.bandwidth

    def row(self) -> tuple[object, ...]:
        """Returns the cells of `_HEADER`."""
        read = (self.weight_bytes + self.cache_bytes) / 1e6
        return (
            self.slots, self.source_length, 1e6 * self.step, 1e6 * self.with_host, read, self.bandwidth / 1e9,
            1e6 * self.limit, f"{self.step / self.limit:.2f}", self.engine,
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = (
                write_random_model(Path(scratch) / "random", options.random, options.vocabulary)
                if options.random else read_folder(options.model)
            )  # fmt: skip
            found = measure(folder, options.device, options.precision, options.slots, options.tokens, options.steps)
    except (ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    print(describe(found))
    if options.json:
        report.write(options.json, {"benchmark": "decode_limit", "rows": [to_json(one) for one in found]})
    return 0


def measure(
    folder: ModelFolder, device: str, precision: str, slots: Sequence[int], length: int = 32, steps: int = 32
) -> list[Limit]:
    """Measures the first `steps` greedy steps for each number of slots, with sources of `length` tokens."""
    torch_device = torch.device(device)
    transformer = load_model(folder, dtype=getattr(torch, precision), device=device)
    bandwidth = copy_bandwidth(torch_device)
    found = []
    for count in slots:
        backend, engine = _backend(transformer, count)
        sources = random_sources(folder.model.vocab_size, count, length, folder.model.eos_id)
        step, seen = _time_steps(backend, sources, steps)
        mean = (steps + 1) / 2
        size = transformer.embedding.weight.element_size()
        found.append(Limit(
            count, length, mean, step, seen, size * step_weights(folder.model),
            int(size * cached(folder.model, count, length + mean)), bandwidth, engine,
        ))  # fmt: skip
    return found


def describe(found: Sequence[Limit]) -> str:
    """Returns the table with a note on the measured steps."""
    note = f"Steps 1 to {2 * found[0].mean_length - 1:.0f} of sentences that start together."
    return report.table(_HEADER, [one.row() for one in found]) + f"\n{note}"


def to_json(limit: Limit) -> dict[str, Any]:
    """Returns every field and the limit."""
    return {**asdict(limit), "limit": limit.limit}


def copy_bandwidth(device: torch.device) -> float:
    """Returns the median bandwidth of ten large copies in bytes per second (read and written)."""
    source = torch.ones(_COPY_BYTES[device.type] // 4, device=device)
    target = torch.empty_like(source)
    seconds = [_timed(partial(target.copy_, source), device)[0] for _ in range(13)][3:]
    return 2 * source.numel() * 4 / statistics.median(seconds)


def step_weights(config: ModelConfig) -> int:
    """Returns the number of weights that a decode step reads: the decoder without the cross-attention key and value
    projections, and the output projection."""
    layer = 6 * config.d_model**2 + 2 * config.d_model * config.d_ff
    return config.decoder_layers * layer + config.d_model * config.vocab_size


def cached(config: ModelConfig, slots: int, positions: float) -> float:
    """Returns the number of cached values of `slots` rows for `positions` target and source positions together."""
    return slots * positions * 2 * config.decoder_layers * config.d_model


def _backend(transformer: Any, slots: int) -> tuple[GraphedBackend, str]:
    """Returns the backend of the server on a GPU; on a CPU, the same steps without a captured graph."""
    if not next(transformer.parameters()).is_cuda:
        return GraphedBackend(transformer, slots, capture=False), "eager"
    from server.engine.worker.torch_loader import gpu_backend

    backend, engine, reason = gpu_backend(transformer, slots)
    if not isinstance(backend, GraphedBackend):
        raise RuntimeError(f"Steps cannot be captured: {reason}")
    return backend, engine if backend.fused else f"{engine}, masks"


def _time_steps(backend: GraphedBackend, sources: Sequence[Sequence[int]], steps: int) -> tuple[float, float]:
    """Returns the seconds per step on the device, and including the host with four steps per launch."""
    slots = list(range(len(sources)))
    tokens = [backend.transformer.config.decoder_start_id] * len(sources)
    alone: list[float] = []
    around: list[float] = []
    for turn in range(8):
        backend.prefill(sources, slots)
        if turn % 2:
            seconds, pending = _timed(
                partial(backend.step_async, slots, tokens, 1, [-1] * len(slots), steps), backend.device
            )
            pending.outputs()
            alone.append(seconds / steps)
        else:
            read = tokens
            begun = time.perf_counter()
            for _ in range(steps // 4):
                read = backend.multi_step(slots, read, 4)[-1].ids[:, 0].tolist()
            around.append((time.perf_counter() - begun) / (steps // 4 * 4))
        backend.free(slots)
    return statistics.median(alone[1:]), statistics.median(around[1:])


def _timed(action: Callable[[], Result], device: torch.device) -> tuple[float, Result]:
    """Returns the duration in seconds, measured by CUDA events on a GPU, and the result of the action."""
    if device.type == "cpu":
        begun = time.perf_counter()
        result = action()
        return time.perf_counter() - begun, result
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize(device)
    begin.record()
    result = action()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000, result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine.decode_limit", description=(__doc__ or "").split("\n\n")[0]
    )
    add_model_options(parser)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precision", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--tokens", type=int, default=32, help="source length")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
