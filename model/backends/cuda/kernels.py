"""Triton kernels of a decode step: attention of one query per slot, residual sum with LayerNorm,
selection of tokens. Imported only on machines with a GPU.

Each replaces several PyTorch kernels, whose launches would take most of a step. All compute in
float32 and round once, to the type of the tensors.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.backends.cuda.device import link_compiled_driver
from model.backends.cuda.fused_step import SlotKernels

link_compiled_driver(Path(triton.knobs.cache.dir))
_BLOCK = 32
"""Positions read per iteration."""
_VOCABULARY_BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _attend(  # type: ignore[no-untyped-def]
    query, key, value, keys, values, lengths, places, output, scale, q_row, new_row, k_row, k_head, k_time, p_row, p_time,
    o_row, width: tl.constexpr, block: tl.constexpr, padded: tl.constexpr, writes: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    feature = tl.arange(0, padded)
    inside = feature < width
    here = head * width + feature
    q = tl.load(query + row * q_row + here, mask=inside, other=0.0).to(tl.float32) * scale
    maximum = -float("inf")
    denominator = 0.0
    accumulated = tl.zeros([padded], dtype=tl.float32)
    if writes:
        cell = row * k_row + head * k_head
        # The position of this step is stored for later steps and read from registers.
        own_key = tl.load(key + row * new_row + here, mask=inside, other=0.0)
        own_value = tl.load(value + row * new_row + here, mask=inside, other=0.0)
        tl.store(keys + cell + length * k_time + feature, own_key, mask=inside)
        tl.store(values + cell + length * k_time + feature, own_value, mask=inside)
        maximum = tl.sum(own_key.to(tl.float32) * q, axis=0)
        denominator = 1.0
        accumulated = own_value.to(tl.float32)
    for start in range(0, length, block):
        time = start + tl.arange(0, block)
        valid = time < length
        mask = valid[:, None] & inside[None, :]
        slot = tl.load(places + row * p_row + time * p_time, mask=valid, other=0)
        at = slot[:, None] * k_row + head * k_head + time[:, None] * k_time + feature[None, :]
        scores = tl.sum(
            tl.load(keys + at, mask=mask, other=0.0).to(tl.float32) * q[None, :], axis=1
        )
        scores = tl.where(valid, scores, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=0))
        rescale = tl.exp(maximum - new_maximum)
        weights = tl.exp(scores - new_maximum)
        v = tl.load(values + at, mask=mask, other=0.0).to(tl.float32)
        accumulated = accumulated * rescale + tl.sum(weights[:, None] * v, axis=0)
        denominator = denominator * rescale + tl.sum(weights, axis=0)
        maximum = new_maximum
    tl.store(
        output + row * o_row + here,
        (accumulated / denominator).to(output.dtype.element_ty),
        mask=inside,
    )


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _add_norm(  # type: ignore[no-untyped-def]
    x, added, weight, bias, total, normed, epsilon, width: tl.constexpr, padded: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    feature = tl.arange(0, padded)
    inside = feature < width
    at = row * width + feature
    summed = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    summed += tl.load(added + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(total + at, summed.to(total.dtype.element_ty), mask=inside)
    mean = tl.sum(summed, axis=0) / width
    centred = tl.where(inside, summed - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + epsilon)
    factor = tl.load(weight + feature, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + feature, mask=inside, other=0.0).to(tl.float32)
    tl.store(
        normed + at, (centred * scale * factor + shift).to(normed.dtype.element_ty), mask=inside
    )


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _choose(  # type: ignore[no-untyped-def]
    logits, forced, barred, tokens, chosen, l_row, vocabulary, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = logits + row * l_row
    lane = tl.arange(0, block)
    top = tl.full([block], -float("inf"), dtype=tl.float32)
    total = tl.zeros([block], dtype=tl.float32)
    # the highest score of a token that is not barred
    allowed = tl.full([block], -float("inf"), dtype=tl.float32)
    found = tl.zeros([block], dtype=tl.int32)
    for start in range(0, vocabulary, block):
        token = start + lane
        inside = token < vocabulary
        score = tl.load(at + token, mask=inside, other=-float("inf")).to(tl.float32)
        free = score + tl.load(barred + token, mask=inside, other=0.0)
        higher = tl.maximum(top, score)
        # The total of a lane without a finite score yet is zero.
        kept = tl.where(top == -float("inf"), 0.0, tl.exp(top - higher))
        total = total * kept + tl.where(score == -float("inf"), 0.0, tl.exp(score - higher))
        found = tl.where(free > allowed, token, found)
        allowed = tl.maximum(allowed, free)
        top = higher
    highest = tl.max(top, axis=0)
    seen = tl.where(top == -float("inf"), 0.0, tl.exp(top - highest))
    mass = highest + tl.log(tl.sum(total * seen, axis=0))
    # Ties: the lowest id, in every batch; of logits that are NaN any id of the vocabulary.
    best = tl.max(allowed, axis=0)
    first = tl.minimum(tl.min(tl.where(allowed == best, found, vocabulary), axis=0), vocabulary - 1)
    tl.store(tokens + row, first.to(tl.int64))
    tl.store(chosen + 3 * row, first.to(tl.float64))
    tl.store(chosen + 3 * row + 1, (best - mass).to(tl.float64))
    asked = tl.load(forced + row)
    tl.store(chosen + 3 * row + 2, (tl.load(at + asked).to(tl.float32) - mass).to(tl.float64))


def attend_self(
    qkv: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, places: Tensor
) -> Tensor:
    """Self-attention of one step: qkv (R, 3 H D), keys and values (R, H, T, D) -> (R, H D). Appends
    this step's key and value to the `lengths[r]` positions of each row r, which are stored in the
    rows places[r] (T,) of keys and values."""
    rows, heads, _, width = keys.shape
    query, key, value = (
        qkv[:, : heads * width],
        qkv[:, heads * width : 2 * heads * width],
        qkv[:, 2 * heads * width :],
    )
    return _launch(
        query, key, value, keys, values, lengths, places, (rows, heads, width), writes=True
    )


def attend(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(D)) V over each row's first `lengths` positions, at least 1: query (R, H
    D), keys and values (R, H, T, D) -> (R, H D). They are stored in the rows places[r] (T,), or
    (1,) for all positions. One pass with a running maximum (Milakov and Gimelshein 2018)."""
    rows, heads, _, width = keys.shape
    return _launch(
        query, query, query, keys, values, lengths, places, (rows, heads, width), writes=False
    )


def add_norm(
    x: Tensor, added: Tensor, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns x + added and its LayerNorm, (R, d_model) each."""
    total, normed = torch.empty_like(x), torch.empty_like(x)
    width = x.shape[1]
    _add_norm[(x.shape[0],)](
        x,
        added,
        weight,
        bias,
        total,
        normed,
        epsilon,
        width=width,
        padded=triton.next_power_of_2(width),
    )
    return total, normed


def choose(logits: Tensor, forced: Tensor, barred: Tensor, tokens: Tensor) -> Tensor:
    """Returns the most probable token of each row of logits (R, V), its log-probability, and that
    of the token `forced` (R,): (R, 3). Also writes the tokens to `tokens` (R,). `barred` (V,) is 0,
    or -inf for tokens that are not chosen."""
    rows, vocabulary = logits.shape
    chosen = torch.empty(rows, 3, dtype=torch.float64, device=logits.device)
    block = min(_VOCABULARY_BLOCK, triton.next_power_of_2(vocabulary))
    _choose[(rows,)](
        logits,
        forced,
        barred,
        tokens,
        chosen,
        logits.stride(0),
        vocabulary,
        block=block,
        num_warps=8,
    )
    return chosen


def _launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    places: Tensor,
    shape: tuple[int, int, int],
    *,
    writes: bool,
) -> Tensor:
    rows, heads, width = shape
    if keys.stride() != values.stride() or keys.stride(3) != 1:
        raise ValueError("Keys and values must be laid out alike.")
    output = torch.empty(rows, heads * width, dtype=query.dtype, device=query.device)
    _attend[(rows, heads)](
        query, key, value, keys, values, lengths, places, output, 1.0 / math.sqrt(width), query.stride(0), key.stride(0),
        *keys.stride()[:3], places.stride(0), places.stride(1) * (places.shape[1] > 1), output.stride(0), width=width,
        block=_BLOCK, padded=triton.next_power_of_2(width), writes=writes, num_warps=2,
    )  # fmt: skip
    return output


KERNELS = SlotKernels("triton", attend_self, attend, add_norm, choose)
