"""Compares the kernels with torch: tests/gpu/test_cuda.py runs it on a GPU, `make kernels` in
Triton's interpreter."""

from __future__ import annotations

import sys

import torch
from torch.nn import functional

from model.backends.cuda.kernels import KERNELS


def attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Returns attention computed by torch, (B, H * D).

    `query` is (B, H * D), `keys` and `values` are (B, H, T, D), `mask` is (B, T).
    """
    rows, heads, _, width = keys.shape
    split_query = query.reshape(rows, heads, 1, width).float()
    found = functional.scaled_dot_product_attention(
        split_query, keys.float(), values.float(), attn_mask=mask[:, None, None]
    )
    return found.reshape(rows, heads * width)


def check_attention(device: str, dtype: torch.dtype, tolerance: float) -> None:
    for rows, heads, width, room in ((5, 2, 16, 70), (4, 1, 48, 33)):
        keys, values = torch.randn(2, rows + 2, heads, room + 9, width, device=device, dtype=dtype)
        keys, values = keys[:rows, :, :room], values[:rows, :, :room]
        lengths = torch.randint(9, room, (rows + 3,), device=device)
        qkv = torch.randn(rows, 3 * heads * width, device=device, dtype=dtype)
        query = qkv[:, : heads * width]
        mask = torch.arange(room, device=device) < lengths[:rows, None]

        every = torch.arange(rows, device=device)
        origins = torch.randint(0, rows, (rows + 1,), device=device)
        found = KERNELS.attend(query, keys, values, lengths, origins[:, None])
        check_close(
            found, attention(query, keys[origins[:rows]], values[origins[:rows]], mask), tolerance
        )
        places = torch.arange(rows + 1, device=device)[:, None].repeat(1, room)
        common = int(lengths[:rows].min())  # beyond it a row may be writing
        places[:, :common] = torch.randint(0, rows, (rows + 1, common), device=device)
        found = KERNELS.attend_self(qkv, keys, values, lengths, places)
        stored = keys[every, :, lengths[:rows]], values[every, :, lengths[:rows]]
        for side, written in enumerate(stored, 1):
            new = qkv[:, side * heads * width : (side + 1) * heads * width].view(rows, heads, width)
            assert torch.equal(written, new)
        time = torch.arange(room, device=device)
        mask = time <= lengths[:rows, None]
        keys, values = (side[places[:rows], :, time].transpose(1, 2) for side in (keys, values))
        check_close(found, attention(query, keys, values, mask), tolerance)


def check_norm(device: str, dtype: torch.dtype, tolerance: float) -> None:
    for rows, width in ((7, 48), (3, 512)):
        x, added = torch.randn(2, rows, width, device=device, dtype=dtype)
        weight, bias = torch.randn(2, width, device=device, dtype=dtype)
        total, normed = KERNELS.add_norm(x, added, weight, bias, 1e-5)
        whole = x.float() + added.float()
        check_close(total, whole, tolerance)
        check_close(
            normed,
            functional.layer_norm(whole, (width,), weight.float(), bias.float(), 1e-5),
            4 * tolerance,
        )


def check_choice(device: str, dtype: torch.dtype) -> None:
    for rows, vocabulary in ((6, 97), (3, 9001)):
        logits = 3 * torch.randn(rows, vocabulary + 31, device=device, dtype=dtype)[:, :vocabulary]
        logits[0, 17] = logits[0, 80] = 30.0  # the lower id of equal logits is chosen
        logits[1, : vocabulary // 2] = -float("inf")
        forced = torch.randint(vocabulary // 2, vocabulary, (rows,), device=device)
        scores = torch.log_softmax(logits.float(), dim=-1)
        barred, tokens = torch.zeros(vocabulary, device=device), torch.zeros_like(forced)
        for first in (17, 80):
            chosen = KERNELS.choose(logits, forced, barred, tokens)
            assert torch.equal(chosen[:, 0].long(), tokens) and tokens[0] == first
            check_close(
                scores.gather(1, tokens[:, None])[:, 0], (scores + barred).max(dim=-1).values, 0.0
            )
            check_close(chosen[:, 1], (scores + barred).max(dim=-1).values, 1e-4)
            check_close(chosen[:, 2], scores.gather(1, forced[:, None])[:, 0], 1e-4)
            barred[17] = -float("inf")
        logits[2] = float("nan")
        chosen = KERNELS.choose(logits, forced, barred, tokens)
        assert 0 <= tokens[2] < vocabulary and not chosen[2, 1].isfinite()


def check_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found.float(), expected, atol=tolerance, rtol=tolerance)


def main(device: str) -> None:
    """Checks all kernels in every precision that the device supports."""
    torch.manual_seed(0)
    types = (
        [(torch.float32, 1e-4)]
        if device == "cpu"
        else [(torch.float32, 1e-4), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)]
    )
    for dtype, tolerance in types:
        check_attention(device, dtype, tolerance)
        check_norm(device, dtype, tolerance)
        check_choice(device, dtype)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cpu")
