"""A tiny model folder with random weights and a development set for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece
import torch

from model.checkpoint import save_model
from model.config import ModelConfig
from model.model_folder import ModelFolder, TokenizerFiles
from model.transformer import Transformer

WORDS = ["house", "garden", "small", "green", "Haus", "Garten", "klein", "rot", "the", "das", "is", "ist"]
LINES = [f"{a} {b} {c}." for a in WORDS for b in WORDS for c in WORDS[:3]]


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folder with random weights for en-de and de-en."""
    path = tmp_path_factory.mktemp("weights") / "tiny"
    path.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_prefix=str(path / "tokenizer"), vocab_size=360, byte_fallback=True,
        pad_id=0, unk_id=1, bos_id=2, eos_id=3, control_symbols=[">>de<<", ">>en<<"], hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path / "tokenizer.model"))
    config = ModelConfig(
        vocab_size=processor.get_piece_size(), d_model=64, heads=2, d_ff=128, encoder_layers=1, decoder_layers=1,
        max_length=64,
    )  # fmt: skip
    folder = ModelFolder(
        path=path, name="tiny", model=config, pairs=(("en", "de"), ("de", "en")),
        tags={"de": ">>de<<", "en": ">>en<<"}, license="CC0-1.0", origin="random", tokenizer=TokenizerFiles(),
    )  # fmt: skip
    torch.manual_seed(1)
    save_model(folder, Transformer(config))
    return path


@pytest.fixture(scope="session")
def development(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with one development set of ten pairs."""
    folder = tmp_path_factory.mktemp("dev")
    pairs = [f"{LINES[i]}\t{LINES[-1 - i]}" for i in range(10)]
    (folder / "small.en-de.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    return folder
