"""Steps of fixed shape compute what plain steps compute. Here without capture; tests/gpu does the same with graphs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from model.config import ModelConfig
from model.inference import TorchBackend
from model.options import DecodingOptions
from model.search import translate
from model.transformer import Transformer
from server.worker.graphs import GraphedBackend, disagreement

SHAPES = {
    "post": {},
    "pre": {"norm": "pre", "positions": "learned"},
    "marian": {"positions": "sinusoidal_half", "zero_start_embedding": True, "output_bias": True},
    "rotary": {"positions": "rotary", "window": 3},
    "alibi": {"positions": "alibi", "tied_embeddings": False},
}


def transformer(**changes: object) -> Transformer:
    torch.manual_seed(3)
    shape = {"d_model": 32, "heads": 2, "d_ff": 64, "encoder_layers": 2, "decoder_layers": 2, "max_length": 150}
    return Transformer(ModelConfig(vocab_size=97, **{**shape, **changes})).eval()  # type: ignore[arg-type]


def sources(number: int, longest: int = 40) -> list[list[int]]:
    rng = random.Random(5)
    return [[rng.randrange(4, 97) for _ in range(rng.randint(1, longest))] + [3] for _ in range(number)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beam", [1, 3])
def test_fixed_shapes_give_the_same_translations(shape: str, beam: int) -> None:
    model = transformer(**SHAPES[shape])
    options = DecodingOptions(beam_size=beam, hypotheses=beam, max_length=45)
    asked = sources(11)
    found = [
        translate(backend, asked, options, start=2, end=3, max_length=150)
        for backend in (TorchBackend(model, 7), GraphedBackend(model, 7, capture=False))
    ]
    for plain, fixed in zip(*found, strict=True):
        assert [one.tokens for one in plain] == [one.tokens for one in fixed]
        for one, other in zip(plain, fixed, strict=True):
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)


def test_storage_grows_under_running_rows() -> None:
    model = transformer()
    plain, fixed = TorchBackend(model, 4), GraphedBackend(model, 4, capture=False)
    for backend in (plain, fixed):
        backend.prefill([[5, 6, 3]], [2])
    for step in range(140):
        if step == 60:
            for backend in (plain, fixed):
                backend.prefill([[7] * 140 + [3]], [0])
        rows = [2] if step < 60 else [0, 2]
        left, right = (backend.step(rows, [9 + step % 50] * len(rows), 2, [-1] * len(rows)) for backend in (plain, fixed))
        assert left.scores == pytest.approx(right.scores, abs=1e-4)


def test_forced_tokens_and_masked_heads() -> None:
    model = transformer()
    plain, fixed = TorchBackend(model, 4), GraphedBackend(model, 4, capture=False)
    for backend in (plain, fixed):
        backend.prefill([[5, 6, 3], [8, 3]], [3, 1], [(), (("cross", 1, 0),)])
    for step in range(5):
        forced = [11 + step, -1]
        left, right = (backend.step([3, 1], [9, 10], 2, forced) for backend in (plain, fixed))
        assert left.ids.tolist() == right.ids.tolist() and right.ids[0, 0] == forced[0]
        assert left.scores == pytest.approx(right.scores, abs=1e-4)


def test_a_burst_is_as_many_single_steps() -> None:
    model = transformer()
    one, many = (GraphedBackend(model, 5, capture=False) for _ in range(2))
    for backend in (one, many):
        backend.prefill(sources(3), [4, 0, 2])
    outputs = many.burst([4, 0, 2], [2, 2, 2], 6)
    tokens = [2, 2, 2]
    for output in outputs:
        single = one.step([4, 0, 2], tokens, 1, [-1, -1, -1])
        tokens = single.ids[:, 0].tolist()
        assert output.ids[:, 0].tolist() == tokens
        assert output.scores == pytest.approx(single.scores, abs=1e-5)
    assert one.cache.lengths == many.cache.lengths


def own_lengths(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """What kernels.attend_slots computes, in words of torch."""
    mask = torch.arange(keys.shape[2]) < lengths[:, None]
    context = functional.scaled_dot_product_attention(query.unsqueeze(2), keys, values, attn_mask=mask[:, None, None])
    return context.squeeze(2)


@pytest.mark.parametrize("shape", ["post", "pre", "marian"])
def test_attention_over_own_lengths_gives_the_same_translations(shape: str) -> None:
    model = transformer(**SHAPES[shape])
    options = DecodingOptions(beam_size=2, max_length=40)
    plain, own = (
        translate(backend, sources(9), options, start=2, end=3, max_length=150)
        for backend in (TorchBackend(model, 6), GraphedBackend(model, 6, capture=False, kernel=own_lengths))
    )
    assert [found[0].tokens for found in plain] == [found[0].tokens for found in own]


def test_a_kernel_without_biases_refuses_models_that_need_them() -> None:
    for shape in ("rotary", "alibi"):
        with pytest.raises(ValueError, match="biases"):
            GraphedBackend(transformer(**SHAPES[shape]), 4, capture=False, kernel=own_lengths)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")
def test_the_kernel_attends_over_own_lengths() -> None:
    program = (
        "import torch\n"
        "from server.worker.kernels import attend_slots\n"
        "torch.manual_seed(0)\n"
        "for rows, heads, width, room in ((5, 2, 16, 70), (4, 1, 48, 33)):\n"
        "    keys, values = torch.randn(2, rows + 2, heads, room + 9, width)\n"
        "    keys, values = keys[:rows, :, :room], values[:rows, :, :room]\n"
        "    query, lengths = torch.randn(rows, heads, width), torch.randint(1, room + 1, (rows,))\n"
        "    mask = (torch.arange(room) < lengths[:, None])[:, None, None]\n"
        "    expected = torch.nn.functional.scaled_dot_product_attention(\n"
        "        query.unsqueeze(2), keys, values, attn_mask=mask).squeeze(2)\n"
        "    torch.testing.assert_close(attend_slots(query, keys, values, lengths), expected)\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=Path(__file__).parents[3])


def test_without_capture_nothing_is_replayed() -> None:
    backend = GraphedBackend(transformer(), 4, capture=False)
    assert disagreement(backend) == "No step was captured."
    assert backend.captured == 0
