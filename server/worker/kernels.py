"""A Triton kernel: attention of one query per slot over that slot's own length. Imported only where there is a GPU."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 32
"""Positions that are read at a time."""


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _attend(  # type: ignore[no-untyped-def]
    query, keys, values, lengths, output, scale, q_row, q_head, k_row, k_head, k_time, v_row, v_head, v_time,
    o_row, o_head, width: tl.constexpr, block: tl.constexpr, padded: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    feature = tl.arange(0, padded)
    inside = feature < width
    asked = tl.load(query + row * q_row + head * q_head + feature, mask=inside, other=0.0).to(tl.float32) * scale
    top = -float("inf")
    total = 0.0
    mixed = tl.zeros([padded], dtype=tl.float32)
    for start in range(0, length, block):
        time = start + tl.arange(0, block)
        live = time < length
        mask = live[:, None] & inside[None, :]
        at = keys + row * k_row + head * k_head + time[:, None] * k_time + feature[None, :]
        scores = tl.sum(tl.load(at, mask=mask, other=0.0).to(tl.float32) * asked[None, :], axis=1)
        scores = tl.where(live, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=0))
        shrink = tl.exp(top - higher)
        weights = tl.exp(scores - higher)
        at = values + row * v_row + head * v_head + time[:, None] * v_time + feature[None, :]
        seen = tl.load(at, mask=mask, other=0.0).to(tl.float32)
        mixed = mixed * shrink + tl.sum(weights[:, None] * seen, axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        top = higher
    at = output + row * o_row + head * o_head + feature
    tl.store(at, (mixed / total).to(output.dtype.element_ty), mask=inside)


def attend_slots(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(D)) V over each row's first `lengths` positions, at least 1: query (R, H, D), keys and values
    (R, H, T, D) with any strides but the last, lengths (R,) -> (R, H, D). Reads no position beyond a row's length. The
    softmax is computed in one pass with a running maximum (Milakov and Gimelshein 2018)."""
    rows, heads, width = query.shape
    query = query.contiguous()
    output = torch.empty_like(query)
    _attend[(rows, heads)](
        query, keys, values, lengths, output, 1.0 / math.sqrt(width), *query.stride()[:2], *keys.stride()[:3],
        *values.stride()[:3], *output.stride()[:2], width=width, block=_BLOCK, padded=triton.next_power_of_2(width),
    )  # fmt: skip
    return output
