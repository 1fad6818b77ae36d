"""Writes a model folder with random weights of any preset, for speed measurements without a trained
model."""

from __future__ import annotations

import json
import random
from pathlib import Path

import sentencepiece
import torch

from model.checkpoint import save_model
from model.config import PRESETS, ModelConfig
from model.model_folder import ModelFolder, TokenizerFiles, read_folder
from model.transformer import Transformer

_NEVER = -1e4
"""Bias of the end of sentence. No target ends before the length limit, so that every engine does
the same work."""


def write_random_model(path: Path, preset: str, vocabulary: int, seed: int = 1) -> ModelFolder:
    """Writes a folder with the shape of `preset` and `vocabulary` pieces to `path`, with Marian's
    sinusoidal positions."""
    path.mkdir(parents=True)
    _write_tokenizer(path)
    pieces = ["<pad>", "<unk>", "<s>", "</s>", *(f"p{i}" for i in range(4, vocabulary))]
    (path / "vocab.json").write_text(
        json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8"
    )
    config: ModelConfig = PRESETS[preset](vocabulary, positions="sinusoidal_half", output_bias=True)
    torch.manual_seed(seed)
    transformer = Transformer(config)
    with torch.no_grad():
        transformer.output_bias.fill_(0.0)
        transformer.output_bias[[config.eos_id, config.pad_id, config.unk_id]] = _NEVER
    folder = ModelFolder(
        path=path,
        name=f"random {preset} {vocabulary}",
        model=config,
        pairs=(("en", "de"),),
        tags={},
        license="CC0-1.0",
        origin="random",
        tokenizer=TokenizerFiles(vocabulary="vocab.json"),
    )
    save_model(folder, transformer)
    return read_folder(path)


def random_sources(
    vocabulary: int, count: int, length: int, end: int, seed: int = 1
) -> list[tuple[int, ...]]:
    """Returns `count` sources of `length` random ids that end with `end`."""
    draw = random.Random(seed)
    return [
        (*(draw.randrange(4, vocabulary) for _ in range(length - 1)), end) for _ in range(count)
    ]


def _write_tokenizer(path: Path) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghij") for _ in range(4)) for _ in range(200)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words),
        model_prefix=str(path / "tokenizer"),
        vocab_size=64,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    (path / "tokenizer.vocab").unlink()
