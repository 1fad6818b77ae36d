"""Random M2M100, NLLB and SMaLL-100 models in the layout of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.models.marian_models import sharpen, train_sentencepiece

FILE = "sentencepiece.bpe.model"
CODES = {
    "m2m100": ("en", "de", "fr", "zh", "ceb"),
    "nllb": ("ace_Arab", "ace_Latn", "deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"),
}


def random_multilingual(folder: Path, family: str, seed: int = 0, **changes: Any) -> Any:
    """Returns a random M2M100ForConditionalGeneration and saves it. `family` is "m2m100", "nllb" or "small100"."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir(parents=True)
    pieces = train_sentencepiece(folder / FILE, seed=seed + 1, size=220, model_type="bpe")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    if family == "nllb":
        tokens = list(CODES["nllb"])
    else:
        tokens = [f"__{code}__" for code in CODES["m2m100"]]
        # As in the real files, the order of vocab.json is not that of SentencePiece.
        (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate([*special, *pieces[::-1]])}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": tokens}))
    name = {"nllb": "NllbTokenizer", "m2m100": "M2M100Tokenizer", "small100": "SMALL100Tokenizer"}[family]
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    if family == "nllb":  # the real folders have a tokenizer.json too
        transformers.NllbTokenizer.from_pretrained(folder, extra_special_tokens=tokens).save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    settings: dict[str, Any] = {
        "vocab_size": len(special) + len(pieces) + len(tokens) + 3,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 160,
        "dropout": 0.0,
        **changes,
    }
    torch.manual_seed(seed)
    model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**settings)).eval()
    sharpen(model)
    model.generation_config.num_beams = 5
    # A random model writes padding, which has no position of its own in transformers.
    model.generation_config.bad_words_ids = [[1]]
    model.save_pretrained(folder)
    return model
