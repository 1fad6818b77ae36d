"""The table of shapes is that of the Transformer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from model.config import ModelConfig
from model.convert.tensor_names import shapes
from model.transformer import Transformer

SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "d_model": 32,
    "heads": 2,
    "d_ff": 48,
    "encoder_layers": 2,
    "decoder_layers": 1,
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": False, "source_vocab_size": 70},
        {"tied_embeddings": False, "output_bias": True},
        {"norm": "pre", "positions": "learned", "max_length": 20},
        {"recurrence": "ssru", "norm": "pre"},
    ],
)
def test_shapes_are_those_of_the_transformer(changes: dict[str, Any]) -> None:
    config = ModelConfig(**SHAPE, **changes)
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in Transformer(config).state_dict().items()}
    assert shapes(config) == expected
