"""Processor time of self-attention by the length n of a sentence: full, and within a window of r words on either side.

"Attention Is All You Need", section 4 and table 1. PyTorch, float32, one thread. `masked` is what the model computes
with `window=r`: all products, and -inf beyond the window. `blocks` computes only the products near the window.
`feed_forward` is the network that follows, for comparison.

python -m benchmarks.engine.attention_cost --json attention-cost.json
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.common import report
from model.attention import MultiHeadAttention
from model.config import ModelConfig, base
from model.layers import FeedForward

HEADER = ("n", "full ms", "masked ms", "blocks ms", "feed_forward ms")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    config = base(1_000)
    rows = measure(config, options.lengths, options.window, options.repeats)
    print(report.table(HEADER, rows))
    if options.json:
        results = [dict(zip(HEADER, row, strict=True)) for row in rows]
        shape = {"d_model": config.d_model, "heads": config.heads, "d_ff": config.d_ff, "window": options.window}
        report.write(options.json, {"benchmark": "attention_cost", **shape, "rows": results})
    return 0


@torch.inference_mode()
def measure(
    config: ModelConfig, lengths: Sequence[int], window: int, repeats: int
) -> list[tuple[int, float, float, float, float]]:
    """Returns a row of HEADER for each length: medians of the process's processor time, in milliseconds."""
    torch.manual_seed(0)
    attention, network = MultiHeadAttention(config.d_model, config.heads).eval(), FeedForward(config).eval()
    rows = []
    for length in lengths:
        x = torch.randn(1, length, config.d_model)
        mask = window_mask(length, window)
        ways: list[Callable[[], object]] = [
            lambda x=x: full(attention, x, None),  # type: ignore[misc]
            lambda x=x, mask=mask: full(attention, x, mask),  # type: ignore[misc]
            lambda x=x: blocks(attention, x, window),  # type: ignore[misc]
            lambda x=x: network(x),  # type: ignore[misc]
        ]
        times = _alternating(ways, repeats)
        rows.append((length, *(round(1000 * statistics.median(each), 3) for each in times)))
    return rows  # type: ignore[return-value]


def full(attention: MultiHeadAttention, x: Tensor, bias: Tensor | None) -> Tensor:
    """Self-attention as model/layers.py computes it: x (1, T, d_model) -> (1, T, d_model)."""
    query = attention.queries(x)
    return attention.attend(query, *attention.keys_values(x), bias)


def blocks(attention: MultiHeadAttention, x: Tensor, window: int) -> Tensor:
    """Self-attention within a window in O(r n d): blocks of r queries see 3 r keys. The same numbers as with the mask."""
    length, size = x.shape[1], window
    count = math.ceil(length / size)
    query, (key, value) = attention.queries(x), attention.keys_values(x)
    query = functional.pad(query, (0, 0, 0, count * size - length))  # (1, H, N r, D)
    key, value = (functional.pad(each, (0, 0, size, (count + 1) * size - length)) for each in (key, value))
    heads, width = query.shape[1], query.shape[3]
    query = query.view(heads, count, size, width)
    key, value = (each[0].unfold(1, 3 * size, size).transpose(2, 3) for each in (key, value))  # (H, N, 3 r, D)
    mask = _block_mask(length, count, size)
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return attention.merge(context.reshape(1, heads, count * size, width)[:, :, :length], None)


def window_mask(length: int, window: int) -> Tensor:
    """Returns the bias (T, T): 0 within the window, -inf beyond."""
    places = torch.arange(length)
    distance = (places[:, None] - places[None, :]).abs()
    return torch.zeros(length, length).masked_fill(distance > window, -math.inf)


def _block_mask(length: int, count: int, size: int) -> Tensor:
    """Returns which keys the queries of each block see, (N, r, 3 r)."""
    queries = torch.arange(count * size).view(count, size, 1)
    keys = (torch.arange(3 * size) - size).view(1, 1, -1) + torch.arange(count).view(-1, 1, 1) * size
    inside = (keys >= 0) & (keys < length) & ((keys - queries).abs() <= size)
    return inside | (queries >= length)  # padded queries see everything: a softmax over nothing is NaN


def _alternating(ways: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Returns the processor seconds of each way, which take turns after one that is not counted."""
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(repeats + 1):
        for way, found in zip(ways, times, strict=True):
            started = time.process_time()
            way()
            if turn:
                found.append(time.process_time() - started)
    return times


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine.attention_cost", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--window", type=int, default=32, help="words on either side (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=9, help="counted turns, after one warm-up turn")
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
