"""Small random Transformers in many configurations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from model.backends.torch.backend import TorchBackend
from model.config import ModelConfig
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from model.transformer import Transformer

VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "swish, half-and-half, bias, zero start": {
        "activation": "swish",
        "positions": "sinusoidal_half",
        "output_bias": True,
        "zero_start_embedding": True,
    },
    "gelu, learned, unscaled": {
        "activation": "gelu",
        "positions": "learned",
        "scale_embeddings": False,
    },
    "untied": {"tied_embeddings": False},
    "two vocabularies": {"tied_embeddings": False, "source_vocab_size": 61},
    "recurrence": {"recurrence": "ssru", "zero_start_embedding": True},
    "recurrence, pre-norm, two vocabularies": {
        "recurrence": "ssru",
        "norm": "pre",
        "tied_embeddings": False,
        "source_vocab_size": 61,
        "positions": "learned",
    },
    "embedding norm, pre-norm, positions of each side": {
        "embedding_norm": True,
        "norm": "pre",
        "activation": "gelu",
        "positions": "learned_per_side",
    },
    "deep encoder, odd ids": {
        "encoder_layers": 4,
        "decoder_layers": 1,
        "pad_id": 30,
        "eos_id": 11,
        "unk_id": 2,
        "bos_id": 7,
        "decoder_start_id": 30,
    },
}


def random_model(variant: str = "the paper's", seed: int = 1, **changes: Any) -> Transformer:
    """Returns a random Transformer in evaluation mode.

    The weights are scaled so that output distributions are neither uniform nor concentrated on one
    token, and some targets end before the maximum length.
    """
    torch.manual_seed(seed)
    shape = {
        "vocab_size": 50,
        "d_model": 32,
        "heads": 4,
        "d_ff": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "max_length": 64,
    }
    config = ModelConfig(**{**shape, **VARIANTS[variant], **changes})
    transformer = Transformer(config).eval()
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if parameter.dim() == 1 and "norm.weight" not in name:
                parameter.normal_(std=0.1)
            elif "attention" in name:
                parameter.mul_(2.5)
            elif "embedding" in name or "projection" in name:
                parameter.mul_(1.5)
        last = (
            transformer.decoder_norm
            if config.norm == "pre"
            else transformer.decoder[-1].feed_forward_residual.norm
        )
        head = transformer.embedding if config.tied_embeddings else transformer.projection
        last.bias += 1.5 * head.weight[config.eos_id] / head.weight[config.eos_id].norm()
    return transformer


def random_ids(
    config: ModelConfig, count: int, seed: int = 0, longest: int = 14
) -> list[list[int]]:
    """Returns random sources of 1 to `longest` tokens followed by the end of sentence."""
    chance = random.Random(seed)
    size = config.source_vocab_size or config.vocab_size
    usable = [i for i in range(size) if i not in (config.pad_id, config.eos_id)]
    return [
        [*(chance.choice(usable) for _ in range(chance.randint(1, longest))), config.eos_id]
        for _ in range(count)
    ]


def decode(
    transformer: Transformer, sources: Sequence[Sequence[int]], slots: int = 64, **options: Any
) -> list[tuple[Hypothesis, ...]]:
    """Returns the hypotheses of each source. At most `slots` rows are decoded at a time."""
    config = transformer.config
    return translate(TorchBackend(transformer, slots), sources, DecodingOptions(**options), config)


def best(found: list[tuple[Hypothesis, ...]]) -> list[tuple[int, ...]]:
    """Returns the tokens of the first hypothesis of each source."""
    return [listed[0].tokens for listed in found]
