"""Triton kernels of a decode step: attention of one query per slot, residual sum with LayerNorm, selection of tokens.

Imported only on machines with a GPU. Each replaces several PyTorch kernels, whose launches (a few microseconds each)
would take most of a step. All compute in float32 and round once, to the type of the tensors.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.backends.cuda.fused_step import SlotKernels

_BLOCK = 32
"""Positions read per iteration."""
_VOCABULARY_BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _attend(  # type: ignore[no-untyped-def]
    query, key, value, keys, values, lengths, output, scale, q_row, new_row, k_row, k_head, k_time, o_row,
    width: tl.constexpr, block: tl.constexpr, padded: tl.constexpr, writes: tl.constexpr,
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
    cell = row * k_row + head * k_head
    if writes:
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
        at = cell + time[:, None] * k_time + feature[None, :]
        scores = tl.sum(tl.load(keys + at, mask=mask, other=0.0).to(tl.float32) * q[None, :], axis=1)
        scores = tl.where(valid, scores, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=0))
        rescale = tl.exp(maximum - new_maximum)
        weights = tl.exp(scores - new_maximum)
        v = tl.load(values + at, mask=mask, other=0.0).to(tl.float32)
        accumulated = accumulated * rescale + tl.sum(weights[:, None] * v, axis=0)
        denominator = denominator * rescale + tl.sum(weights, axis=0)
        maximum = new_maximum
    tl.store(output + row * o_row + here, (accumulated / denominator).to(output.dtype.element_ty), mask=inside)


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
    tl.store(normed + at, (centred * scale * factor + shift).to(normed.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _choose(  # type: ignore[no-untyped-def]
    logits, forced, ids, best, wanted, vocabulary, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = logits + row * vocabulary
    lane = tl.arange(0, block)
    top = tl.full([block], -float("inf"), dtype=tl.float32)
    total = tl.zeros([block], dtype=tl.float32)
    found = tl.zeros([block], dtype=tl.int32)
    for start in range(0, vocabulary, block):
        token = start + lane
        score = tl.load(at + token, mask=token < vocabulary, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, score)
        # The total of a lane without a finite score yet is zero.
        kept = tl.where(top == -float("inf"), 0.0, tl.exp(top - higher))
        total = total * kept + tl.where(score == -float("inf"), 0.0, tl.exp(score - higher))
        found = tl.where(score > top, token, found)
        top = higher
    highest = tl.max(top, axis=0)
    seen = tl.where(top == -float("inf"), 0.0, tl.exp(top - highest))
    mass = highest + tl.log(tl.sum(total * seen, axis=0))
    # Ties: the lowest id, in every batch.
    first = tl.min(tl.where(top == highest, found, vocabulary), axis=0)
    tl.store(ids + row, first.to(tl.int64))
    tl.store(best + row, highest - mass)
    asked = tl.load(forced + row)
    tl.store(wanted + row, tl.load(at + asked).to(tl.float32) - mass)


def attend_self(qkv: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Self-attention of one step: qkv (R, 3 H D), keys and values (R, H, T, D) -> (R, H D).

    Appends the key and value of this step to the `lengths[r]` positions of each row r.
    """
    rows, heads, _, width = keys.shape
    query, key, value = qkv[:, : heads * width], qkv[:, heads * width : 2 * heads * width], qkv[:, 2 * heads * width :]
    return _launch(query, key, value, keys, values, lengths, (rows, heads, width), writes=True)


def attend_slots(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(D)) V over each row's first `lengths` positions, at least 1: query (R, H D), keys and values
    (R, H, T, D) -> (R, H D). Reads no position beyond a row's length. The softmax is computed in one pass with a
    running maximum (Milakov and Gimelshein 2018)."""
    rows, heads, _, width = keys.shape
    return _launch(query, query, query, keys, values, lengths, (rows, heads, width), writes=False)


def add_norm(x: Tensor, added: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Returns x + added and its LayerNorm, (R, d_model) each."""
    total, normed = torch.empty_like(x), torch.empty_like(x)
    width = x.shape[1]
    _add_norm[(x.shape[0],)](
        x, added, weight, bias, total, normed, epsilon, width=width, padded=triton.next_power_of_2(width)
    )
    return total, normed


def choose(logits: Tensor, forced: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the most probable token of each row of logits (R, V), its log-probability, and that of the token
    `forced`, (R,) each. Reads the logits once."""
    rows, vocabulary = logits.shape
    ids = torch.empty(rows, dtype=torch.long, device=logits.device)
    best, wanted = torch.empty(2, rows, dtype=torch.float32, device=logits.device)
    block = min(_VOCABULARY_BLOCK, triton.next_power_of_2(vocabulary))
    _choose[(rows,)](logits, forced, ids, best, wanted, vocabulary, block=block, num_warps=8)
    return ids, best, wanted


def _launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    shape: tuple[int, int, int],
    *,
    writes: bool,
) -> Tensor:
    rows, heads, width = shape
    if keys.stride() != values.stride() or keys.stride(3) != 1:
        raise ValueError("Keys and values must be laid out alike.")
    output = torch.empty(rows, heads * width, dtype=query.dtype, device=query.device)
    _attend[(rows, heads)](
        query, key, value, keys, values, lengths, output, 1.0 / math.sqrt(width), query.stride(0), key.stride(0),
        *keys.stride()[:3], output.stride(0), width=width, block=_BLOCK, padded=triton.next_power_of_2(width),
        writes=writes, num_warps=2,
    )  # fmt: skip
    return output


KERNELS = SlotKernels(attend_self, attend_slots, add_norm, choose)
